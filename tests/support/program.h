// SPDX-License-Identifier: Apache-2.0
// Starts build/ballast as a user would and looks at what it prints, writes and returns.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace ballast::testing {

struct ProgramResult {
  int exit_code = -1;
  std::string out;
  std::string err;
};

inline std::string read_text(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

/// A folder that is removed with the test, and the program run inside it.
class ProgramFolder {
 public:
  ProgramFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "ballast_run_XXXXXX").string();
    path_ = mkdtemp(name.data());
  }
  ~ProgramFolder() { std::filesystem::remove_all(path_); }
  ProgramFolder(const ProgramFolder&) = delete;
  ProgramFolder& operator=(const ProgramFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path file(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return path_ / name;
  }

  /// Starts the program; wait_for() must follow. With `most_file_bytes` no file may grow beyond, as on a full disk.
  pid_t start(const std::vector<std::string>& arguments, rlim_t most_file_bytes = RLIM_INFINITY) const {
    const pid_t child = fork();
    if (child != 0) return child;
    if (most_file_bytes != RLIM_INFINITY) {
      const rlimit limit = {most_file_bytes, most_file_bytes};
      setrlimit(RLIMIT_FSIZE, &limit);
      signal(SIGXFSZ, SIG_IGN);  // the write fails with EFBIG instead
    }
    if (chdir(path_.c_str()) != 0) _exit(126);
    for (const auto& [name, descriptor] : {std::pair{"stdout.txt", STDOUT_FILENO}, {"stderr.txt", STDERR_FILENO}}) {
      const int opened = open(name, O_CREAT | O_TRUNC | O_WRONLY, 0600);
      dup2(opened, descriptor);
      close(opened);
    }
    std::vector<std::string> words = {std::string(BALLAST_BINARY_DIR) + "/ballast"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    execv(pointers[0], pointers.data());
    _exit(127);
  }

  ProgramResult wait_for(pid_t child) const {
    int status = 0;
    waitpid(child, &status, 0);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status), read_text(path_ / "stdout.txt"),
            read_text(path_ / "stderr.txt")};
  }

  ProgramResult run(const std::vector<std::string>& arguments) const { return wait_for(start(arguments)); }
  ProgramResult run_limited(const std::vector<std::string>& arguments, rlim_t most_file_bytes) const {
    return wait_for(start(arguments, most_file_bytes));
  }

 private:
  std::filesystem::path path_;
};

/// Turns one bit near the end of a file.
inline void damage_file(const std::filesystem::path& path) {
  std::string content = read_text(path);
  content.at(content.size() - 3) ^= 1;
  std::ofstream(path, std::ios::binary) << content;
}

/// The records of a metrics.jsonl, of one kind.
inline std::vector<nlohmann::json> read_records(const std::filesystem::path& path, const std::string& kind) {
  std::vector<nlohmann::json> records;
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) {
    nlohmann::json record = nlohmann::json::parse(line);
    if (record.at("kind") == kind) records.push_back(std::move(record));
  }
  return records;
}

inline std::vector<double> series(const std::vector<nlohmann::json>& records, const std::string& tag) {
  std::vector<double> values;
  for (const nlohmann::json& record : records) values.push_back(record.at(tag).get<double>());
  return values;
}

/// `train configs/base.yml` with a model of some thousand parameters on synthetic data, six steps, run name t in out/.
inline std::vector<std::string> tiny_run(const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"train",
                                    "configs/base.yml",
                                    "run_name=t",
                                    "base_output_directory=out",
                                    "hardware=cpu",
                                    "dataset_type=synthetic",
                                    "enable_checkpointing=false",
                                    "base_emb_dim=32",
                                    "base_num_query_heads=2",
                                    "base_num_kv_heads=2",
                                    "head_dim=16",
                                    "base_mlp_dim=64",
                                    "base_num_decoder_layers=2",
                                    "vocab_size=128",
                                    "max_target_length=32",
                                    "per_device_batch_size=2",
                                    "steps=6",
                                    "learning_rate=1e-2",
                                    "dtype=float32",
                                    "weight_dtype=float32"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace ballast::testing
