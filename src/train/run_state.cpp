// SPDX-License-Identifier: Apache-2.0
#include "train/run_state.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "config/config.h"
#include "errors/errors.h"
#include "errors/log.h"
#include "models/checkpoint_weights.h"
#include "tensor/stored_tensor.h"

namespace ballast {
namespace {

using nlohmann::json;

constexpr const char* kStateName = "state.json";
constexpr const char* kDataName = "data.json";

json parsed(const CheckpointReader& reader, const char* name) {
  return json::parse(reader.document(name));  // its checksum says that it is what we wrote
}

[[noreturn]] void fail(const CheckpointReader& reader, const std::string& what, const std::string& got,
                       const std::string& need, const std::string& attempt) {
  throw CheckpointError({"checkpoint: " + reader.folder().string(), what, got, need, attempt});
}

void check_optimizer(const CheckpointReader& reader, const json& state, const Config& config) {
  for (const auto& [key, now] : {std::pair{"opt_type", config.opt_type}, {"mu_dtype", config.mu_dtype}}) {
    const std::string before = state.at(key);
    if (before == now) continue;
    fail(reader, std::string("was written with another ") + key, "'" + now + "'", "'" + before + "'",
         "load_parameters_path to start a new run from its weights");
  }
}

/// A place for each stored moment. They are zero, or not there yet, for parameters that no step has reached.
std::map<std::string, Moments> add_moment_reads(const CheckpointReader& reader, const Decoder& decoder,
                                                TensorReads& reads) {
  std::map<std::string, Moments> moments;
  for (const UnitPtr& unit : decoder.units()) {
    for (const Parameter& parameter : unit->parameters()) {
      const auto add = [&](const char* prefix, at::Tensor Moments::* member) {
        const ManifestTensor* entry = reader.find(prefix + parameter.spec.name);
        if (entry == nullptr) return;
        if (parameter.master.sizes() != entry->tensor.shape) {
          fail(reader, entry->tensor.name + " has another shape than its parameter", entry->tensor.description(), "",
               "");
        }
        at::Tensor& moment = moments[parameter.spec.name].*member;
        moment = at::empty(entry->tensor.shape,
                           parameter.master.options().dtype(tensor_type(entry->tensor)).requires_grad(false));
        reads.add(*entry, moment);
      };
      add(kFirstMomentPrefix, &Moments::m);
      add(kSecondMomentPrefix, &Moments::v);
    }
  }
  return moments;
}

void tell_differences(const CheckpointReader& reader, const std::string& before, const Config& config) {
  constexpr size_t kShown = 8;
  const std::vector<std::string> differences = config_differences(before, config_yml(config));
  std::string text;
  for (size_t i = 0; i < std::min(kShown, differences.size()); ++i) text += (i > 0 ? ", " : "") + differences[i];
  if (differences.size() > kShown) text += " and " + std::to_string(differences.size() - kShown) + " more";
  if (!text.empty())
    log_info("checkpoint: " + reader.folder().string() + ": other values than when it was written: " + text);
}

/// The rate of a step depends on the length of the schedule, which is `steps` unless it is given.
void tell_schedule(const json& state, const Config& config) {
  const int64_t before = state.at("schedule_steps");
  if (before == config.learning_rate_schedule_steps) return;
  log_warning("learning rates: the schedule has " + std::to_string(config.learning_rate_schedule_steps) +
              " steps now and had " + std::to_string(before) + " when the checkpoint was written; " +
              "learning_rate_schedule_steps=" + std::to_string(before) + " keeps it");
}

void restore_data(const CheckpointReader& reader, const json& data, const Config& config, BatchSource& source) {
  if (config.restart_data_on_resume) {
    log_info("data: begins again at the first batch (restart_data_on_resume)");
    return;
  }
  const std::string attempt = "the old data, or restart_data_on_resume=true";
  const std::string before = data.at("dataset_type");
  if (before != config.dataset_type) {
    throw DataError({"data: dataset_type", "the position in " + reader.folder().string() + " belongs to other data",
                     config.dataset_type, before, attempt});
  }
  try {
    source.load_state(data.at("position"));
  } catch (const json::exception&) {
    throw DataError({"data: " + config.dataset_type,
                     "the position in " + reader.folder().string() + " was saved by another kind of reader", "", "",
                     attempt});
  }
}

}  // namespace

CheckpointContent checkpoint_of(const RunParts& parts, const Config& config, int64_t step) {
  CheckpointContent content;
  content.step = step;
  content.config = config_yml(config);
  const Optimizer& optimizer = parts.step.optimizer();
  json state = {{"opt_type", config.opt_type},
                {"mu_dtype", config.mu_dtype},
                {"updates", optimizer.step_count()},
                {"schedule_steps", config.learning_rate_schedule_steps}};
  if (const SpikeGuard* guard = parts.step.spike_guard()) state["spike_guard"] = guard->state();
  const json data = {{"dataset_type", config.dataset_type}, {"position", parts.data.state()}};
  content.documents = {{kStateName, state.dump() + "\n"}, {kDataName, data.dump() + "\n"}};
  std::vector<SnapshotTensor> moments;
  for (const auto& [name, moment] : optimizer.moments()) {
    if (moment.m.defined()) moments.push_back(snapshot_of(kFirstMomentPrefix + name, moment.m));
    if (moment.v.defined()) moments.push_back(snapshot_of(kSecondMomentPrefix + name, moment.v));
  }
  content.tensor_files = {{kModelName, decoder_tensors(parts.decoder)},
                          {"optimizer-r00000.safetensors", std::move(moments)}};
  return content;
}

void restore_run(const CheckpointReader& reader, const RunParts& parts, const Config& config) {
  if (reader.manifest().kind != CheckpointKind::kTraining) {
    fail(reader, "holds weights only", "", "", "load_parameters_path");
  }
  const json state = parsed(reader, kStateName);
  const json data = parsed(reader, kDataName);
  const std::string before = reader.document(kConfigName);
  check_optimizer(reader, state, config);
  TensorReads reads;
  add_decoder_reads(parts.decoder, reader, reads);
  std::map<std::string, Moments> moments = add_moment_reads(reader, parts.decoder, reads);
  reads.run(reader);
  parts.step.optimizer().restore(state.at("updates"), std::move(moments));
  if (parts.step.spike_guard() != nullptr && state.contains("spike_guard")) {
    parts.step.spike_guard()->load_state(state.at("spike_guard"));
  }
  restore_data(reader, data, config, parts.data);
  tell_differences(reader, before, config);
  tell_schedule(state, config);
}

}  // namespace ballast
