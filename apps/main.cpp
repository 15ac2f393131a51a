// SPDX-License-Identifier: Apache-2.0
// The program `ballast`: picks the subcommand and turns errors into one line and an exit code.
#include <cstdio>
#include <exception>
#include <new>

#include "apps/commands.h"
#include "errors/errors.h"
#include "errors/log.h"

namespace {

struct Command {
  const char* name;
  int (*run)(const ballast::Arguments&);
  const char* usage;
  const char* meaning;
};

constexpr Command kCommands[] = {
    {"train", ballast::run_train, "CONFIG.yml [key=value ...]", "train a model"},
    {"eval", ballast::run_eval, "CONFIG.yml [key=value ...]", "loss and perplexity on a data set"},
    {"probe", ballast::run_probe, "HF_FOLDER --tokens IN --out OUT [--grads all|NAME ...]",
     "one forward and backward pass, for comparison"},
    {"inspect", ballast::run_inspect, "PATH [--verify] | CONFIG.yml [key=value ...] --batch K",
     "what a file, a checkpoint or a data set holds"},
    {"convert", ballast::run_convert, "FROM TO [--dtype T] [--max_shard_size 5GB] [--names hf]",
     "a checkpoint becomes a Hugging Face folder, and the other way round"},
    {"tokenize", ballast::run_tokenize, "TOKENIZER INPUT ... --out FILE.npy|.bin|.jsonl",
     "text to token files, text to ids and back as JSON lines"},
    {"report", ballast::run_report, "RUN [--out FILE]", "the curves of a run as one HTML page, RUN/report.html"},
    {"balance", ballast::run_balance, "RUN [RUN2] [--step N] [--plot FILE.html]",
     "how evenly a run uses its experts, or two runs compared: a table, and a page with maps, RUN/expert_load.html"},
    {"keys", ballast::run_keys, "[PATTERN]", "every configuration key"},
};

void print_help(std::FILE* stream) {
  std::fprintf(stream, "ballast %s: trains large language models\n\nusage: ballast COMMAND ...\n\n", BALLAST_VERSION);
  for (const Command& command : kCommands) {
    std::fprintf(stream, "  %-8s %s\n             %s\n", command.name, command.usage, command.meaning);
  }
  std::fprintf(stream,
               "\n  --help, --version\n\n"
               "train and eval also take --print_config: every value and where it came from.\n"
               "Example: ballast train configs/demo.yml run_name=first steps=50\n"
               "Exit codes: 0 done, 1 loss not finite, 2 configuration, 3 data, 4 weights and checkpoints,\n"
               "            5 numbers, 6 ranks, 70 internal, 130/143 stopped by a signal\n");
}

int dispatch(const ballast::Arguments& arguments) {
  if (arguments.empty()) {
    print_help(stderr);
    return 2;
  }
  const std::string& name = arguments.front();
  if (name == "--help" || name == "-h" || name == "help") {
    print_help(stdout);
    return 0;
  }
  if (name == "--version") {
    std::printf("ballast %s\n", BALLAST_VERSION);
    return 0;
  }
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run({arguments.begin() + 1, arguments.end()});
  }
  throw ballast::ConfigError({.where = "ballast",
                              .what = "unknown command",
                              .got = name,
                              .need = "train, eval, probe, inspect, convert, tokenize, report, balance or keys",
                              .attempt = "ballast --help"});
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return dispatch({argv + 1, argv + argc});
  } catch (const ballast::Error& error) {
    ballast::log_error(error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    ballast::log_error("out of memory");
  } catch (const std::exception& error) {
    ballast::log_error(std::string("internal: ") + error.what());
  }
  return static_cast<int>(ballast::ErrorKind::kInternal);
}
