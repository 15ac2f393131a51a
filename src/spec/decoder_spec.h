// SPDX-License-Identifier: Apache-2.0
// A model as data: everything the decoder needs to know, layer by layer. No torch, no code of one family.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace ballast {

struct Config;

/// Where the weight of an RMS norm multiplies: n = x / sqrt(mean(x^2) + epsilon), computed in fp32.
enum class NormForm {
  kCastThenScale,  ///< w * cast(n): Llama, Mistral, Qwen3
  kScaleThenCast,  ///< cast(w * n), product in fp32: OLMo 3
  kOnePlusScale,   ///< cast((1 + w) * n), product in fp32: Gemma 3
};

/// One RMS norm. `name` is the module part of the parameter name ("input_layernorm"); empty: there is no norm.
struct NormSpec {
  std::string name;
  NormForm form = NormForm::kCastThenScale;
  double epsilon = 1e-5;
  bool has_weight = true;
  bool exists() const { return !name.empty(); }
  bool operator==(const NormSpec&) const = default;
};

enum class RopeScaling { kDefault, kLinear, kLlama3, kYarn };

/// One set of rotary frequencies. Layers name theirs by index into DecoderSpec::ropes.
struct RopeSpec {
  RopeScaling scaling = RopeScaling::kDefault;
  double theta = 10000.0;
  int64_t rotary_dim = 0;                       ///< leading channels of a head that rotate
  bool is_interleaved = false;                  ///< pairs (2j, 2j+1) instead of (j, j + rotary_dim/2)
  bool multiplies_in_fp32 = false;              ///< cos/sin stay fp32 and q, k are cast after the rotation (OLMo code)
  double factor = 1.0;                          ///< linear, llama3, yarn
  double low_freq_factor = 1.0;                 ///< llama3
  double high_freq_factor = 4.0;                ///< llama3
  double original_max_position_embeddings = 0;  ///< llama3, yarn
  double beta_fast = 32.0;                      ///< yarn
  double beta_slow = 1.0;                       ///< yarn
  bool truncate = true;                         ///< yarn: bounds rounded outwards to whole pairs
  double attention_factor = 1.0;                ///< multiplies cos and sin; resolved, never "unset"
  bool operator==(const RopeSpec&) const = default;
};

enum class QkNormKind { kNone, kPerHead, kWholeProjection };

/// Softmax attention with grouped key/value heads. Widths of q/k and v may differ.
struct AttentionSpec {
  int64_t num_query_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;        ///< width of q and k
  int64_t value_head_dim = 0;  ///< width of v
  int64_t sliding_window = 0;  ///< a query sees itself and window-1 earlier keys; 0: all earlier keys
  double scale = 0;            ///< multiplies q.k
  double logits_soft_cap = 0;  ///< c * tanh(score / c); 0: off
  int rope = -1;               ///< index into DecoderSpec::ropes; -1: no rotation
  QkNormKind qk_norm = QkNormKind::kNone;
  NormSpec q_norm, k_norm;
  bool has_qkv_bias = false;
  bool has_output_bias = false;
  bool has_sinks = false;  ///< one learned logit a head in the softmax denominator
  bool operator==(const AttentionSpec&) const = default;
};

/// Softmax attention whose keys and values come out of a narrow latent (DeepSeek V2). With N(..) the RMS norms:
///   q = q_b(N(q_a(x))), or q_proj(x); [c | r] = kv_a(x); [k | v] = kv_b(N(c)), a head each
///   scores of [q_nope | rope(q_rope)] and [k | rope(r)]: all heads share the rotating part of the key
struct MlaSpec {
  int64_t num_heads = 0;
  int64_t q_rank = 0;  ///< 0: queries come from one projection
  int64_t kv_rank = 0;
  int64_t nope_dim = 0;        ///< channels of a query and key head that do not rotate, the first ones
  int64_t rope_dim = 0;        ///< the others
  int64_t value_head_dim = 0;  ///< width of v
  double scale = 0;            ///< multiplies q.k
  int rope = -1;               ///< index into DecoderSpec::ropes; -1: no rotation
  NormSpec q_norm, kv_norm;    ///< of the latents
  bool has_bias = false;       ///< on the projections that read or write the residual, but not on q_proj
  int64_t head_dim() const { return nope_dim + rope_dim; }
  bool operator==(const MlaSpec&) const = default;
};

enum class Activation { kSilu, kGeluTanh, kGelu, kRelu, kLinear };

/// down(act(gate(x)) * up(x)), or down(act(up(x))) without a gate.
struct DenseFfnSpec {
  int64_t mlp_dim = 0;
  Activation activation = Activation::kSilu;
  bool is_gated = true;
  bool has_bias = false;
  double activation_limit = 0;  ///< c > 0: min(gate, c) and clip(up, -c, c) stand for gate and up; 0: off
  bool operator==(const DenseFfnSpec&) const = default;
};

/// What a router makes of its logits z. The choice is by score plus selection bias, the weights come from the score
/// without it.
enum class RouterScore {
  kLogits,        ///< score z; weights: softmax over the chosen (Mixtral, gpt-oss)
  kSoftmax,       ///< softmax over all experts
  kSigmoid,       ///< each expert by itself (DeepSeek V3)
  kSqrtSoftplus,  ///< sqrt(log(1 + e^z)), each expert by itself (DeepSeek V4)
};

/// By what the groups of a router are ranked.
enum class GroupScore {
  kTwoBest,  ///< sum of the two largest scores (DeepSeek V3)
  kBest,     ///< largest score (DeepSeek V2)
};

/// Which experts a token goes to, and with which weights. Everything in fp32.
struct RouterSpec {
  int64_t num_experts = 0;
  int64_t num_experts_per_tok = 0;
  RouterScore score = RouterScore::kSoftmax;
  bool normalizes = true;           ///< weights of the chosen are divided by their sum; kLogits: always true
  double scaling_factor = 1.0;      ///< multiplies the weights
  bool has_bias = false;            ///< trained bias of the logits (gpt-oss)
  bool has_selection_bias = false;  ///< untrained bias of the choice, moved towards balance (DeepSeek V3)
  int64_t num_groups = 0;           ///< groups of equally many neighbouring experts; 0: no groups
  int64_t num_kept_groups = 0;      ///< the best groups, which the choice is limited to
  GroupScore group_score = GroupScore::kTwoBest;
  bool operator==(const RouterSpec&) const = default;
};

/// How a Hugging Face folder stores routed experts. In memory, in checkpoints and for masks the names are those of the
/// default values, with all experts in one tensor: mlp.experts.gate_proj.weight [E, F, D] and so on.
enum class ExpertStorage {
  kOneTensorAnExpert,  ///< <experts>.<e>.<gate|up|down>.weight, [out, in]
  kFusedInterleaved,   ///< <experts>.gate_up_proj [E, in, 2 out], gate and up alternating; <experts>.down_proj [E, in,
                       ///< out]; biases under <name>_bias (gpt-oss)
};

struct ExpertNames {
  ExpertStorage storage = ExpertStorage::kOneTensorAnExpert;
  std::string router = "mlp.gate";
  std::string experts = "mlp.experts";
  std::string gate = "gate_proj", up = "up_proj", down = "down_proj";
  bool operator==(const ExpertNames&) const = default;
};

/// Routed experts, each down(product(gate(x), up(x))) with
///   product = act(min(gate, limit)) * (clip(up, -limit, limit) + up_offset), act(g) = g * sigmoid(alpha * g) for SiLU
/// summed with the router's weights, plus an expert that every token passes.
struct MoeFfnSpec {
  RouterSpec router;
  int64_t mlp_dim = 0;  ///< width of one expert
  Activation activation = Activation::kSilu;
  double activation_limit = 0;   ///< 0: off; clips the shared expert too
  double activation_alpha = 1;   ///< other than 1 with kSilu only
  double up_offset = 0;          ///< added to the clipped up; routed experts only
  bool has_bias = false;         ///< on gate, up and down of each expert; a down bias is inside the routing weight
  int64_t latent_dim = 0;        ///< experts work between two projections, D to this width and back; the router reads D
  int64_t shared_dim = 0;        ///< width of the expert that every token passes; 0: none
  bool has_shared_gate = false;  ///< sigmoid(x . w) multiplies what the shared expert returns
  ExpertNames names;
  bool operator==(const MoeFfnSpec&) const = default;
};

using MixerSpec = std::variant<AttentionSpec, MlaSpec>;  // room for linear attention
using FfnSpec = std::variant<DenseFfnSpec, MoeFfnSpec>;

/// x += post_mixer_norm(mixer(pre_mixer_norm(x))); x += post_ffn_norm(ffn(pre_ffn_norm(x))). A norm may be absent.
/// Parallel layers read the residual stream once: n = pre_mixer_norm(x); x += mixer(n) + ffn(n).
struct LayerSpec {
  bool is_parallel = false;  ///< true: pre_mixer_norm is the only norm of the layer
  NormSpec pre_mixer_norm, post_mixer_norm, pre_ffn_norm, post_ffn_norm;
  MixerSpec mixer;
  FfnSpec ffn;
  bool operator==(const LayerSpec&) const = default;
};

/// The balance loss of one layer, from choice shares f and mean probabilities P of a group of tokens; E experts, K
/// chosen a token, sum of f = K. docs/losses.md has the formulas, their divisors and their values at balance.
enum class LoadBalanceForm {
  kMaxText,   ///< E * sum f P, at balance K; P of the score as the router selects by it
  kDeepSeek,  ///< E / K * sum f P, at balance 1; P of the scores over their sum, without the selection bias
  kOlmo,      ///< as kDeepSeek, each group weighted with its number of tokens
};

/// How experts are trained and balanced: nothing here changes what a finished model computes.
struct MoeTraining {
  LoadBalanceForm form = LoadBalanceForm::kMaxText;
  bool groups_by_row = true;    ///< a group is a row; else `group_instances` rows
  int64_t group_instances = 0;  ///< neighbouring rows of the step's batch; 0: a micro-batch
  double load_balance_weight = 0;
  double router_z_weight = 0;  ///< of the squared log-sum-exp of the logits, a token
  bool divides_by_loss_tokens =
      false;                   ///< kOlmo and router z: divide by the loss tokens of the step, not by its routed tokens
  bool sums_layers = false;    ///< add the layers' losses, do not average them
  double capacity_factor = 0;  ///< > 0: an expert drops what exceeds this multiple of its share of a row
  double selection_bias_rate = 0;  ///< step of the selection bias, once an optimizer step
  bool has_maxtext_init = false;   ///< deviation 1/sqrt(E * out) of expert weights, not 1/sqrt(in)
  bool operator==(const MoeTraining&) const = default;
};

/// Multi-token prediction. Module j, from 1, reads the stream h that the module before it (at first the last layer)
/// left and the embedding of the token j places on, and predicts the token behind that one through the shared final
/// norm and head:
///   h_j = layer(concat(enorm(embedding), hnorm(h_{j-1})) P^T), P [D, 2D]
/// @source DeepSeek-V3 report, section 2.2
struct MtpSpec {
  std::vector<LayerSpec> layers;  ///< one a module; none: no modules
  double loss_weight = 0;         ///< of the modules' mean cross-entropy in the objective
  int64_t eval_module = 0;        ///< whose acceptance rate evaluation measures, from 1; 0: none
  bool operator==(const MtpSpec&) const = default;
};

struct DecoderSpec {
  int64_t vocab_size = 0;
  int64_t emb_dim = 0;
  double embedding_scale = 1.0;  ///< multiplies the embedding output
  std::vector<RopeSpec> ropes;
  std::vector<LayerSpec> layers;
  NormSpec final_norm;
  bool is_head_tied = false;  ///< the embedding table is the output head
  double logits_scale = 1.0;  ///< multiplies the logits before the soft cap
  double final_logits_soft_cap = 0;
  bool logits_dot_in_fp32 = false;  ///< the head's product and weights are fp32 whatever the activations are
  double dense_init_scale = 1.0;
  double dropout_rate = 0;
  MoeTraining moe;
  MtpSpec mtp;
  bool operator==(const DecoderSpec&) const = default;
};

/// The decoder that a configuration describes. Throws ConfigError where its fields contradict one another.
DecoderSpec make_decoder_spec(const Config& config);

/// rotary_dim/2 angles per unit of position, in double. Formulas: docs/hf_config.md.
std::vector<double> rope_frequencies(const RopeSpec& rope);

/// What one mixer sees: positions of the window, the query's own among them; 0: all earlier ones.
int64_t window_of(const MixerSpec& mixer);

/// Layers, modules included, whose feed-forward part has routed experts.
int64_t count_moe_layers(const DecoderSpec& spec);

/// Number of elements of all parameters.
int64_t count_parameters(const DecoderSpec& spec);

}  // namespace ballast
