#include "ops/expert_ffn.h"
#include <ATen/ATen.h>
#include "ops/activation.h"
#include "ops/arguments.h"
namespace ballast {
ExpertPlan plan_experts(const at::Tensor& expert_NK, int64_t E) {
  ExpertPlan p;
  p.num_tokens = expert_NK.size(0);
  p.num_choices = expert_NK.size(1);
  auto flat = expert_NK.flatten();
  auto valid = flat.ge(0);
  auto order = std::get<1>(at::sort(at::where(valid, flat, E), true, 0, false));
  auto counts = at::bincount(at::where(valid, flat, E), {}, E + 1);
  p.offsets = {0};
  for (int64_t e = 0; e < E; ++e) p.offsets.push_back(p.offsets.back() + counts[e].item<int64_t>());
  p.choice_R = order.narrow(0, 0, p.offsets.back()).contiguous();
  p.row_NK = at::full_like(flat, -1).index_put({p.choice_R}, at::arange(p.offsets.back())).view_as(expert_NK);
  return p;
}
ExpertOutputs expert_ffn(const at::Tensor& x, const at::Tensor& w, const ExpertPlan& p, const ExpertWeights& W,
                         const ExpertForm& form, const ExpertOutputs&) {
  at::Tensor y = at::zeros({x.size(0), W.down_EDF.size(1)}, x.options().dtype(w.scalar_type()));
  for (int64_t e = 0; e < p.num_experts(); ++e) {
    const int64_t n = p.offsets[e + 1] - p.offsets[e];
    if (n == 0) continue;
    auto choice = p.choice_R.narrow(0, p.offsets[e], n);
    auto token = choice.div(p.num_choices, "floor");
    auto rows = x.index_select(0, token).to(W.gate_EFD.scalar_type());
    auto g = rows.mm(W.gate_EFD[e].t()), u = rows.mm(W.up_EFD[e].t());
    if (W.gate_bias_EF.defined()) {
      g = g + W.gate_bias_EF[e];
      u = u + W.up_bias_EF[e];
    }
    if (form.limit > 0) {
      g = g.clamp_max(form.limit);
      u = u.clamp(-form.limit, form.limit);
    }
    auto a = form.alpha == 1 ? activation(g, form.activation) : g * at::sigmoid(g * form.alpha);
    auto o = (a * (u + form.up_offset)).mm(W.down_EDF[e].t());
    if (W.down_bias_ED.defined()) o = o + W.down_bias_ED[e];
    y = y.index_add(0, token, o.to(w.scalar_type()) * w.flatten().index_select(0, choice).unsqueeze(1));
  }
  return {at::Tensor(), at::Tensor(), y.to(x.scalar_type())};
}
}  // namespace ballast
