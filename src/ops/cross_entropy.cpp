// SPDX-License-Identifier: Apache-2.0
#include "ops/cross_entropy.h"

#include <ATen/ATen.h>
#include <ATen/OpMathType.h>
#include <ATen/Parallel.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "ops/arguments.h"
#include "ops/cross_entropy_kernel.h"
#include "tensor/cpu_features.h"

namespace ballast {
namespace {

/// Tokens whose logits exist at the same time: ascending numbers, all counted.
using TokenTile = std::vector<int64_t>;

struct TileOperands {
  const at::Tensor &hidden_ND, &head_VD, &target_N, &weight_N;
  const CrossEntropyOptions& options;
};

struct WantedGradients {
  bool hidden = false, head = false;
  bool any() const { return hidden || head; }
};

/// Per-token values, and the gradients of sum over n of weight_n * (ce_n + z_n) where wanted.
struct TileResults {
  at::Tensor ce_N, z_N, d_hidden_ND, d_head_VD;
};

/// The type of the matrix products.
at::ScalarType loss_product_type(const at::Tensor& hidden, const at::Tensor& head) {
  const at::ScalarType type = at::promote_types(hidden.scalar_type(), head.scalar_type());
  return hidden.is_cpu() && !has_native_bf16_gemm() ? at::toOpMathType(type) : type;
}

void check_targets(const at::Tensor& target, const at::Tensor& weight, int64_t vocab) {
  const int64_t* targets = target.const_data_ptr<int64_t>();
  const double* weights = weight.const_data_ptr<double>();
  for (int64_t n = 0; n < target.numel(); ++n) {
    if (weights[n] == 0 || (targets[n] >= 0 && targets[n] < vocab)) continue;
    throw NumericError({.where = "ops.cross_entropy",
                        .what = "a counted target is outside the vocabulary",
                        .got = "token id " + std::to_string(targets[n]) + " at token " + std::to_string(n),
                        .need = "0.." + std::to_string(vocab - 1),
                        .attempt = {}});
  }
}

/// The tile of the user's tiling that token n belongs to.
int64_t tile_of(int64_t n, int64_t num_tokens, const CrossEntropyOptions& options) {
  const int64_t place = options.seq_major ? n % options.length : n;
  const int64_t extent = options.seq_major ? options.length : num_tokens;
  const int64_t tile_extent = (extent + options.num_vocab_tiling - 1) / options.num_vocab_tiling;
  return place / tile_extent;
}

/// Counted tokens by tile, cut to max_tile_tokens; no empty tile.
std::vector<TokenTile> make_tiles(const at::Tensor& weight_N, const CrossEntropyOptions& options) {
  const int64_t num_tokens = weight_N.numel();
  const double* weights = weight_N.const_data_ptr<double>();
  std::vector<TokenTile> users(static_cast<size_t>(options.num_vocab_tiling));
  for (int64_t n = 0; n < num_tokens; ++n) {
    if (weights[n] != 0) users[static_cast<size_t>(tile_of(n, num_tokens, options))].push_back(n);
  }
  std::vector<TokenTile> tiles;
  for (const TokenTile& user : users) {
    for (size_t begin = 0; begin < user.size(); begin += static_cast<size_t>(options.max_tile_tokens)) {
      const size_t end = std::min(user.size(), begin + static_cast<size_t>(options.max_tile_tokens));
      tiles.emplace_back(user.begin() + static_cast<int64_t>(begin), user.begin() + static_cast<int64_t>(end));
    }
  }
  return tiles;
}

/// Reads and writes the rows of one tile; a tile without gaps is a view.
class TileRows {
 public:
  TileRows(const TokenTile& tile, const at::Device& device) : begin_(tile.front()), count_(std::ssize(tile)) {
    if (tile.back() - begin_ + 1 == count_) return;
    index_ = at::tensor(tile, at::kLong).to(device);
  }
  int64_t count() const { return count_; }
  at::Tensor read(const at::Tensor& from) const {
    return index_.defined() ? from.index_select(0, index_) : from.narrow(0, begin_, count_);
  }
  void write(at::Tensor& to, const at::Tensor& rows) const {
    if (index_.defined()) {
      to.index_copy_(0, index_, rows);
    } else {
      to.narrow(0, begin_, count_).copy_(rows);
    }
  }

 private:
  int64_t begin_, count_;
  at::Tensor index_;
};

struct RowValues {
  at::Tensor ce, z;
};

/// Softmax rows by tensor operations: any device, any type. Overwrites the logits as cross_entropy_rows does.
RowValues composed_rows(at::Tensor& logits_nV, const at::Tensor& target_n, const at::Tensor& weight_n,
                        const CrossEntropyOptions& options, bool makes_gradient) {
  if (options.logits_scale != 1) logits_nV.mul_(options.logits_scale);
  at::Tensor slope;
  if (options.soft_cap > 0) {
    logits_nV.div_(options.soft_cap).tanh_();
    if (makes_gradient) slope = logits_nV.square().neg_().add_(1);
    logits_nV.mul_(options.soft_cap);
  }
  const at::Tensor log_z = at::logsumexp(logits_nV, 1, /*keepdim=*/true), target = target_n.unsqueeze(1);
  const RowValues values{(log_z - logits_nV.gather(1, target)).squeeze(1),
                         log_z.square().mul_(options.z_loss_multiplier).squeeze(1)};
  if (makes_gradient) {
    const at::Tensor weight = weight_n.unsqueeze(1) * options.logits_scale;
    logits_nV.sub_(log_z).exp_().mul_(weight * (1 + 2 * options.z_loss_multiplier * log_z));
    logits_nV.scatter_add_(1, target, -weight);
    if (slope.defined()) logits_nV.mul_(slope);
  }
  return values;
}

RowValues kernel_rows(at::Tensor& logits_nV, const at::Tensor& target_n, const at::Tensor& weight_n,
                      const CrossEntropyOptions& options, bool makes_gradient) {
  const at::Tensor target = target_n.contiguous(), weight = weight_n.contiguous();
  const RowValues values{at::empty_like(weight), at::empty_like(weight)};
  const CrossEntropyRows rows{.logits = logits_nV.data_ptr<float>(),
                              .vocab = logits_nV.size(1),
                              .target = target.const_data_ptr<int64_t>(),
                              .weight = weight.const_data_ptr<float>(),
                              .ce = values.ce.data_ptr<float>(),
                              .z = values.z.data_ptr<float>(),
                              .z_loss_multiplier = options.z_loss_multiplier,
                              .logits_scale = static_cast<float>(options.logits_scale),
                              .soft_cap = static_cast<float>(options.soft_cap),
                              .makes_gradient = makes_gradient};
  at::parallel_for(0, logits_nV.size(0), 1, [&](int64_t begin, int64_t end) { cross_entropy_rows(rows, begin, end); });
  return values;
}

/// sum += a^T b in the sum's type; the first product overwrites.
void add_product(at::Tensor& sum, const at::Tensor& a, const at::Tensor& b, bool is_first) {
  if (a.scalar_type() == sum.scalar_type()) {
    at::addmm_out(sum, sum, a.t(), b, is_first ? 0 : 1);
  } else if (is_first) {
    sum.copy_(at::mm(a.t(), b));
  } else {
    sum.add_(at::mm(a.t(), b));
  }
}

TileResults run_tiles(const TileOperands& in, WantedGradients wanted) {
  const int64_t num_tokens = in.hidden_ND.size(0), vocab = in.head_VD.size(0);
  const at::Tensor weight_host = in.weight_N.to(at::kCPU, at::kDouble).contiguous();
  check_targets(in.target_N.to(at::kCPU).contiguous(), weight_host, vocab);
  const std::vector<TokenTile> tiles = make_tiles(weight_host, in.options);
  size_t largest = 0;
  for (const TokenTile& tile : tiles) largest = std::max(largest, tile.size());

  const at::ScalarType product = loss_product_type(in.hidden_ND, in.head_VD), value = at::toOpMathType(product);
  const at::TensorOptions values = in.hidden_ND.options().dtype(value);
  const at::Tensor head = in.head_VD.to(product);
  const at::Tensor weight_N = in.weight_N.to(value);
  TileResults out{at::zeros({num_tokens}, values), at::zeros({num_tokens}, values), {}, {}};
  if (wanted.hidden) out.d_hidden_ND = at::zeros(in.hidden_ND.sizes(), in.hidden_ND.options());
  if (wanted.head)
    out.d_head_VD = tiles.empty() ? at::zeros({vocab, head.size(1)}, values) : at::empty({vocab, head.size(1)}, values);
  const bool uses_kernel = in.hidden_ND.is_cpu() && value == at::kFloat;
  const at::Tensor buffer = at::empty({static_cast<int64_t>(largest), vocab}, values);
  for (const TokenTile& tile : tiles) {
    const TileRows rows(tile, in.hidden_ND.device());
    const at::Tensor hidden = rows.read(in.hidden_ND).to(product);
    at::Tensor logits = buffer.narrow(0, 0, rows.count());
    if (product == value) {
      at::mm_out(logits, hidden, head.t());
    } else {
      logits.copy_(at::mm(hidden, head.t()));
    }
    const RowValues row_values = (uses_kernel ? kernel_rows : composed_rows)(
        logits, rows.read(in.target_N), rows.read(weight_N), in.options, wanted.any());
    rows.write(out.ce_N, row_values.ce);
    rows.write(out.z_N, row_values.z);
    if (!wanted.any()) continue;
    const at::Tensor d_logits = logits.to(product);
    if (wanted.hidden) rows.write(out.d_hidden_ND, at::mm(d_logits, head).to(out.d_hidden_ND.scalar_type()));
    if (wanted.head) add_product(out.d_head_VD, d_logits, hidden, &tile == &tiles.front());
  }
  return out;
}

/// sum over n of weight_n * (ce_n + z_n). Tokens of weight 0 are zeros in ce and z.
at::Tensor weighted_sum(const TileResults& results, const at::Tensor& weight_N) {
  const at::Tensor terms = at::add(results.ce_N.to(at::kDouble), results.z_N);
  return at::dot(terms, weight_N.to(at::kDouble)).to(results.ce_N.scalar_type());
}

struct FusedCrossEntropyFunction : torch::autograd::Function<FusedCrossEntropyFunction> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, const at::Tensor& hidden,
                                                const at::Tensor& head, const at::Tensor& target,
                                                const at::Tensor& weight, const CrossEntropyOptions& options) {
    const WantedGradients wanted{hidden.requires_grad(), head.requires_grad()};
    const TileResults results = run_tiles({hidden, head, target, weight, options}, wanted);
    context->save_for_backward({results.d_hidden_ND, results.d_head_VD});
    context->mark_non_differentiable({results.ce_N, results.z_N});
    context->set_materialize_grads(false);
    return {weighted_sum(results, weight), results.ce_N, results.z_N};
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& cotangent = gradients[0];
    if (!cotangent.defined()) return torch::autograd::variable_list(5);
    // A step whose weights hold its divisor comes with cotangent 1: a copy of the head's gradient is saved.
    const bool is_one = cotangent.is_cpu() && cotangent.item<double>() == 1;
    const auto scaled = [&](const at::Tensor& gradient) {
      return gradient.defined() && !is_one ? gradient.mul(cotangent) : gradient;
    };
    return {scaled(saved[0]), scaled(saved[1]), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

/// Options as a value that autograd can keep.
struct KeptOptions : torch::CustomClassHolder {
  explicit KeptOptions(const CrossEntropyOptions& options) : options(options) {}
  CrossEntropyOptions options;
};

struct TokenLogProbsFunction : torch::autograd::Function<TokenLogProbsFunction> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& hidden, const at::Tensor& head,
                            const at::Tensor& target, CrossEntropyOptions options) {
    options.z_loss_multiplier = 0;
    context->save_for_backward({hidden, head, target});
    context->saved_data["options"] = c10::IValue::make_capsule(c10::make_intrusive<KeptOptions>(options));
    return run_tiles({hidden, head, target, target.ge(0).to(hidden.scalar_type()), options}, {}).ce_N.neg();
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor& target = saved[2];
    const auto kept = c10::static_intrusive_pointer_cast<KeptOptions>(context->saved_data["options"].toCapsule());
    // The log-probability is -ce: its gradient is that of ce with the negative cotangent as weight.
    const at::Tensor weight = at::where(target.ge(0), gradients[0].neg(), at::zeros_like(gradients[0]));
    const WantedGradients wanted{context->needs_input_grad(0), context->needs_input_grad(1)};
    const TileResults results = run_tiles({saved[0], saved[1], target, weight, kept->options}, wanted);
    return {results.d_hidden_ND, results.d_head_VD, at::Tensor(), at::Tensor()};
  }
};

void check_cross_entropy(const at::Tensor& hidden, const at::Tensor& head, const at::Tensor& target,
                         const at::Tensor& weight, const CrossEntropyOptions& options) {
  const bool fits = hidden.dim() == 2 && head.dim() == 2 && hidden.size(1) == head.size(1) && target.dim() == 1 &&
                    target.size(0) == hidden.size(0) && weight.sizes() == target.sizes() &&
                    target.scalar_type() == at::kLong;
  if (!fits) {
    shape_fault("ops.cross_entropy", "hidden states, head, targets and weights do not fit together",
                c10::str("hidden ", hidden.sizes(), ", head ", head.sizes(), ", target ", target.sizes(), " ",
                         target.scalar_type(), ", weight ", weight.sizes()),
                "[N, D], [V, D], [N] int64, [N]");
  }
  if (options.num_vocab_tiling < 1 || options.max_tile_tokens < 1 ||
      (options.seq_major && options.rows * options.length != hidden.size(0))) {
    shape_fault("ops.cross_entropy", "the tiling does not fit the tokens",
                c10::str(options.num_vocab_tiling, " tiles of at most ", options.max_tile_tokens, " tokens, ",
                         options.rows, " x ", options.length, " tokens"),
                c10::str("at least 1 tile of at least 1 token, rows x length = ", hidden.size(0)));
  }
}

}  // namespace

CrossEntropyResult fused_cross_entropy(const at::Tensor& hidden_ND, const at::Tensor& head_VD,
                                       const at::Tensor& target_N, const at::Tensor& weight_N,
                                       const CrossEntropyOptions& options) {
  check_cross_entropy(hidden_ND, head_VD, target_N, weight_N, options);
  if (!at::GradMode::is_enabled() || !(hidden_ND.requires_grad() || head_VD.requires_grad())) {
    const TileResults results = run_tiles({hidden_ND, head_VD, target_N, weight_N, options}, {});
    return {weighted_sum(results, weight_N), results.ce_N, results.z_N};
  }
  const auto outputs = FusedCrossEntropyFunction::apply(hidden_ND, head_VD, target_N, weight_N, options);
  return {outputs[0], outputs[1], outputs[2]};
}

at::Tensor token_log_probs(const at::Tensor& hidden_ND, const at::Tensor& head_VD, const at::Tensor& target_N,
                           const CrossEntropyOptions& options) {
  check_cross_entropy(hidden_ND, head_VD, target_N, target_N, options);
  return TokenLogProbsFunction::apply(hidden_ND, head_VD, target_N, options);
}

}  // namespace ballast
