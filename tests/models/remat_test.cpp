// SPDX-License-Identifier: Apache-2.0
// What each remat_policy keeps, forms again and costs, on a whole decoder.
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>

#include "config/resolve.h"
#include "ops/peak_memory.h"
#include "spec/remat.h"
#include "support/tiny_model.h"

namespace ballast {
namespace {

using testing::tiny_batch;
using testing::tiny_context;
using testing::tiny_moe_spec;
using testing::tiny_spec;

RematPlan plan_of(const std::vector<std::string>& pairs) {
  return make_remat_plan(config_from_pairs(pairs));
}

/// Calls of an operation by everything that runs while it lives.
class CallCounter {
 public:
  explicit CallCounter(const char* operation) {
    name_ = operation;
    count_ = 0;
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback([](const at::RecordFunction& call) {
                                      if (name_ == call.name()) ++count_;
                                      return std::unique_ptr<at::ObserverContext>();
                                    }).scopes({at::RecordScope::FUNCTION}));
  }
  ~CallCounter() { at::removeCallback(handle_); }
  CallCounter(const CallCounter&) = delete;
  CallCounter& operator=(const CallCounter&) = delete;
  static int count() { return count_; }

 private:
  static inline std::string name_;
  static inline std::atomic<int> count_;
  at::CallbackHandle handle_;
};

struct RematRun {
  std::unique_ptr<Decoder> decoder;
  double loss = 0;

  RematRun(const DecoderSpec& spec, const RematPlan& plan, at::ScalarType activation = at::kFloat) {
    Precision precision = testing::test_precision(at::kFloat);
    precision.activation = activation;
    decoder = std::make_unique<Decoder>(spec, precision, single_rank_world(), at::Device(at::kCPU),
                                        DecoderOptions{.rematerializes = plan.rematerializes, .kept = plan.kept});
    initialize_parameters(decoder->units(), 7);
  }

  void step() {
    const HostBatch batch = tiny_batch(3, 12);
    const BatchContextPtr context = tiny_context(*decoder, batch, {.seed = 1, .step = 2, .is_training = true});
    LayerStats stats;
    const HiddenStates hidden = decoder->hidden_states(context, stats);
    const at::Tensor objective = decoder->loss(hidden, *context, 1e-2).terms.objective();
    objective.backward();
    loss = objective.item<double>();
  }
};

/// The forms a layer can have: gated and plain feed-forward, norms behind the parts, parallel parts, sinks.
std::vector<std::pair<std::string, DecoderSpec>> forms() {
  std::vector<std::pair<std::string, DecoderSpec>> all;
  all.emplace_back("pre-norm", tiny_spec());
  DecoderSpec spec = tiny_spec();
  for (LayerSpec& layer : spec.layers) {
    layer.post_mixer_norm.name = "post_mixer";
    layer.post_ffn_norm.name = "post_ffn";
    std::get<AttentionSpec>(layer.mixer).has_sinks = true;
  }
  all.emplace_back("norms behind, sinks", spec);
  spec = tiny_spec();
  for (LayerSpec& layer : spec.layers) {
    layer.is_parallel = true;
    layer.pre_ffn_norm.name.clear();
    std::get<DenseFfnSpec>(layer.ffn).is_gated = false;
    std::get<AttentionSpec>(layer.mixer).logits_soft_cap = 5;
  }
  all.emplace_back("parallel, plain, soft cap", spec);
  spec = testing::tiny_mla_spec();
  std::get<MlaSpec>(spec.layers[0].mixer).has_bias = true;
  all.emplace_back("latent attention", spec);
  spec = tiny_moe_spec();
  auto& routed = std::get<MoeFfnSpec>(spec.layers[0].ffn);
  routed.shared_dim = 6;
  routed.has_shared_gate = true;
  routed.has_bias = routed.router.has_bias = true;
  routed.latent_dim = 8;
  spec.layers[1].post_ffn_norm.name = "post_ffn";
  spec.moe.capacity_factor = 1.0;
  all.emplace_back("experts", spec);
  all.emplace_back("prediction modules", testing::tiny_mtp_spec());
  for (auto& [name, form] : all) form.dropout_rate = 0.2;
  return all;
}

const std::vector<std::string> kPolicies = {"full",
                                            "save_out_proj",
                                            "save_qkv_proj",
                                            "save_dot_except_mlp",
                                            "save_dot_except_mlpwi",
                                            "save_dot_with_context_except_mlp",
                                            "minimal",
                                            "minimal_with_context"};

TEST(RematPolicy, LossAndGradientsAreBitEqualToKeepingAll) {
  for (const auto& [form, spec] : forms()) {
    for (const at::ScalarType activation : {at::kFloat, at::kBFloat16}) {
      RematRun plain(spec, plan_of({"remat_policy=none"}), activation);
      plain.step();
      for (const std::string& policy : kPolicies) {
        RematRun run(spec, plan_of({"remat_policy=" + policy}), activation);
        run.step();
        EXPECT_EQ(run.loss, plain.loss) << form << " " << policy;
        for (size_t u = 0; u < run.decoder->units().size(); ++u) {
          for (size_t i = 0; i < run.decoder->units()[u]->parameters().size(); ++i) {
            const Parameter& parameter = run.decoder->units()[u]->parameters()[i];
            EXPECT_TRUE(at::equal(parameter.gradient, plain.decoder->units()[u]->parameters()[i].gradient))
                << form << " " << policy << " " << parameter.spec.name;
          }
        }
      }
    }
  }
}

TEST(RematPolicy, KeptProductsOfExpertsLeaveEveryBitAsItIs) {
  const auto all = forms();
  const auto& [form, spec] = all[all.size() - 2];
  ASSERT_EQ(form, "experts");
  for (const at::ScalarType activation : {at::kFloat, at::kBFloat16}) {
    RematRun plain(spec, plan_of({"remat_policy=none"}), activation);
    plain.step();
    for (const NamedTensors& kept : {NamedTensors{NamedTensor::kMoeMlpwi0},
                                     {NamedTensor::kMoeMlpwo},
                                     {NamedTensor::kMoeMlpwi0, NamedTensor::kMoeMlpwi1, NamedTensor::kMoeMlpwo}}) {
      RematRun run(spec, {.rematerializes = true, .kept = kept}, activation);
      run.step();
      EXPECT_EQ(run.loss, plain.loss) << form;
      for (size_t u = 0; u < run.decoder->units().size(); ++u) {
        for (size_t i = 0; i < run.decoder->units()[u]->parameters().size(); ++i) {
          const Parameter& parameter = run.decoder->units()[u]->parameters()[i];
          EXPECT_TRUE(at::equal(parameter.gradient, plain.decoder->units()[u]->parameters()[i].gradient))
              << parameter.spec.name;
        }
      }
    }
  }
}

/// Calls of the second runs, a layer: those of a step beyond the calls of a step that keeps all.
double repeated_calls(const DecoderSpec& spec, const std::string& policy, const char* operation) {
  RematRun plain(spec, plan_of({"remat_policy=none"})), run(spec, plan_of({"remat_policy=" + policy}));
  const auto calls = [&](RematRun& one) {
    const CallCounter counter(operation);
    one.step();
    return CallCounter::count();
  };
  const int once = calls(plain);
  return static_cast<double>(calls(run) - once) / static_cast<double>(spec.layers.size());
}

// Seven products a layer: q, k, v, o, gate, up, down. What only enters a sum is not formed again.
TEST(RematPolicy, FormsNoKeptProductTwice) {
  const DecoderSpec pre_norm = forms()[0].second, norms_behind = forms()[1].second;
  const std::vector<std::pair<std::string, std::pair<int, int>>> expected = {
      {"full", {6, 7}},
      {"save_out_proj", {5, 6}},
      {"save_qkv_proj", {3, 4}},
      {"save_dot_except_mlp", {2, 3}},
      {"save_dot_except_mlpwi", {2, 2}},
      {"save_dot_with_context_except_mlp", {2, 3}},
      {"minimal", {0, 0}},
      {"minimal_with_context", {0, 0}},
      {"qkv_proj_offloaded", {3, 4}},
      {"minimal_offloaded", {0, 0}},
      {"minimal_with_quantization", {0, 0}},
  };
  for (const auto& [policy, counts] : expected) {
    EXPECT_EQ(repeated_calls(pre_norm, policy, "aten::linear"), counts.first) << policy;
    EXPECT_EQ(repeated_calls(norms_behind, policy, "aten::linear"), counts.second) << policy;
  }
}

TEST(RematPolicy, KeepsAttentionWhereItNamesTheContext) {
  const char* attention = "aten::_scaled_dot_product_flash_attention_for_cpu";
  const DecoderSpec spec = forms()[0].second;
  EXPECT_GT(repeated_calls(spec, "minimal", attention), 0);
  for (const char* policy : {"minimal_with_context", "minimal_flash", "save_dot_with_context_except_mlp",
                             "minimal_with_context_and_quantization"}) {
    EXPECT_EQ(repeated_calls(spec, policy, attention), 0) << policy;
  }
}

/// Bytes that live between forward and backward.
int64_t kept_bytes(const DecoderSpec& spec, const RematPlan& plan) {
  PeakMemory& memory = PeakMemory::installed();
  const RematRun run(spec, plan);
  const HostBatch batch = tiny_batch(3, 12);
  const BatchContextPtr context = tiny_context(*run.decoder, batch);
  const int64_t before = memory.live();
  LayerStats stats;
  const HiddenStates hidden = run.decoder->hidden_states(context, stats);
  return memory.live() - before;
}

// 36 tokens in 2 layers, fp32: widths 32 + 16 + 16 for q, k, v, 32 and 4 heads' denominators for the context, 16 for
// the output projection, 24 + 24 for gate and up. The last product of a layer only enters a sum.
TEST(RematPolicy, MemoryIsThatOfTheNamedTensors) {
  const DecoderSpec spec = tiny_spec();
  const int64_t full = kept_bytes(spec, plan_of({"remat_policy=full"}));
  const auto width = [&](const std::string& policy) {
    return static_cast<double>(kept_bytes(spec, plan_of({"remat_policy=" + policy})) - full) / (36 * 2 * 4);
  };
  EXPECT_EQ(width("save_out_proj"), 16);
  EXPECT_EQ(width("save_qkv_proj"), 64);
  EXPECT_EQ(width("save_dot_except_mlp"), 64 + 16);
  EXPECT_EQ(width("save_dot_except_mlpwi"), 64 + 16);
  EXPECT_EQ(width("save_dot_with_context_except_mlp"), 64 + 36 + 16);
  EXPECT_EQ(width("minimal"), 64 + 16 + 48);
  EXPECT_EQ(width("minimal_with_context"), 64 + 36 + 16 + 48);
  EXPECT_GT(width("none"), width("minimal_with_context"));
}

// Eight products a layer with a latent of the queries: q_a, kv_a, q_b, kv_b, o, gate, up, down.
TEST(RematPolicy, FormsNoKeptProductOfLatentAttentionTwice) {
  const DecoderSpec spec = testing::tiny_mla_spec();
  const std::vector<std::pair<std::string, double>> expected = {
      {"full", 7}, {"save_qkv_proj", 5}, {"save_dot_except_mlp", 4}, {"minimal", 0}, {"minimal_with_context", 0}};
  for (const auto& [policy, count] : expected) {
    // The second layer has no latent of the queries: seven products, of which q_proj is kept as a query.
    const double without_latent = count == 0 ? 0 : count - 1;
    EXPECT_EQ(repeated_calls(spec, policy, "aten::linear"), (count + without_latent) / 2) << policy;
  }
}

// 36 tokens, fp32; queries 4 * 10, keys and values 4 * (6 + 5), latents 7 and 9 + 4.
TEST(RematPolicy, KeysNameTheTensorsOfLatentAttention) {
  DecoderSpec spec = testing::tiny_mla_spec();
  spec.layers[1] = spec.layers[0];
  const int64_t full = kept_bytes(spec, plan_of({"remat_policy=full"}));
  const auto width = [&](const std::string& pair) {
    const RematPlan plan = plan_of({"remat_policy=custom", pair});
    return static_cast<double>(kept_bytes(spec, plan) - full) / (36 * 2 * 4);
  };
  EXPECT_EQ(width("query_wa_proj=device"), 7);
  EXPECT_EQ(width("mla_q=device"), 7);
  EXPECT_EQ(width("kv_wa_proj=device"), 13);
  EXPECT_EQ(width("mla_kv=device"), 13);
  EXPECT_EQ(width("query_proj=device"), 40);
  EXPECT_EQ(width("key_proj=device"), 44);
  EXPECT_EQ(width("value_proj=device"), 44);
  EXPECT_EQ(width("kv_proj=device"), 44);
  EXPECT_EQ(width("qkv_proj=device"), 84);
  EXPECT_EQ(width("context=device"), 4 * 5 + 4);
  EXPECT_EQ(width("out_proj=device"), 16);
}

TEST(RematPolicy, CustomKeepsWhatItsKeysName) {
  using enum NamedTensor;
  EXPECT_EQ(plan_of({"remat_policy=custom"}).kept, NamedTensors());
  EXPECT_EQ(plan_of({"remat_policy=custom", "context=device", "mlpwo=offload"}).kept,
            (NamedTensors{kContext, kMlpwo, kMoeMlpwo}));
  EXPECT_EQ(plan_of({"remat_policy=custom", "qkv_proj=device"}).kept,
            (NamedTensors{kQueryProj, kKeyProj, kValueProj, kKeyValueProj}));
  EXPECT_EQ(plan_of({"remat_policy=custom", "kv_proj=device"}).kept,
            (NamedTensors{kKeyProj, kValueProj, kKeyValueProj}));
  EXPECT_EQ(plan_of({"remat_policy=custom", "mlpwi=device"}).kept,
            (NamedTensors{kMlpwi, kMlpwi0, kMlpwi1, kMoeMlpwi0, kMoeMlpwi1}));
  EXPECT_EQ(plan_of({"remat_policy=custom", "mlpwi_0=device", "mlpwi_1=device", "out_proj=device", "query_proj=device",
                     "key_proj=device", "value_proj=device", "attention_out=device"})
                .kept,
            (NamedTensors{kQueryProj, kKeyProj, kValueProj, kKeyValueProj, kContext, kOutProj, kMlpwi0, kMlpwi1,
                          kMoeMlpwi0, kMoeMlpwi1}));
  EXPECT_EQ(plan_of({"remat_policy=full", "context=device"}).kept, NamedTensors());
}

}  // namespace
}  // namespace ballast
