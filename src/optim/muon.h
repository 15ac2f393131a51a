// SPDX-License-Identifier: Apache-2.0
// Muon: momentum whose matrices are made nearly orthogonal; AdamW for everything else.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "optim/adamw.h"

namespace ballast {

/// Keys `muon_beta`, `muon_weight_decay`, `muon_consistent_rms`.
struct MuonOptions {
  double beta = 0.95;
  double weight_decay = 0;
  std::optional<double> consistent_rms;  ///< absent: the update's scale follows its shape
};

/// With t = number of updates including this one, g = grad * grad_scale and a matrix p of [fan_out, fan_in]:
///
///   m = beta m + (1 - beta) g
///   X = orthogonalize(beta m / (1 - beta^(t+1)) + (1 - beta) g / (1 - beta^t))
///   p = p - lr * (s X + weight_decay * p)
///   s = sqrt(max(1, fan_out / fan_in)), or consistent_rms * sqrt(max(fan_in, fan_out))
///
/// What is_muon_matrix() refuses is updated by AdamW with a Nesterov estimate (AdamForm::kNesterov) and the keys of
/// AdamW. `adam_eps` and `mu_dtype` serve both. Matrices have no second moment.
/// @source Jordan 2024, Muon; google-deepmind/optax optax/contrib/_muon.py
class Muon : public AdamW {
 public:
  Muon(const MuonOptions& options, const AdamWOptions& adam)
      : AdamW(adam, AdamForm::kNesterov), options_(options), eps_(adam.eps), m_type_(adam.m_type) {}

 protected:
  double update(const std::vector<OptimizerSlot>& slots, double learning_rate, double grad_scale) override;

 private:
  void update_matrix(const OptimizerSlot& slot, double learning_rate, double grad_scale);

  MuonOptions options_;
  double eps_;
  at::ScalarType m_type_;
};

/// Whether Muon updates the parameter as a matrix (its last two dimensions; earlier ones count matrices): it has at
/// least two dimensions and is neither the embedding nor the head.
bool is_muon_matrix(const std::string& name, at::IntArrayRef shape);

/// Five Newton-Schulz steps from G / (|G| + eps), |G| the Frobenius norm: singular values above 0.005 |G| become values
/// between 0.68 and 1.16. For each matrix of the last two dimensions, with A = X X^T (of the smaller side)
///
///   X = a X + (b A + c A^2) X,  (a, b, c) = (3.4445, -4.7750, 2.0315)
at::Tensor orthogonalize(const at::Tensor& matrices, double eps);

}  // namespace ballast
