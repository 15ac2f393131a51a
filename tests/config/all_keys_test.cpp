// SPDX-License-Identifier: Apache-2.0
// No key is silently without effect: a value that asks for something is read by the program, refused, or named in
// a warning.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <regex>
#include <set>

#include "config/key_table.h"
#include "config/resolve.h"
#include "files.h"

namespace ballast {
namespace {

const std::string kSourceFolder = BALLAST_SOURCE_DIR;

/// MaxText's keys that a run may set, by its documentation (space between keys).
const char* const kMaxTextKeys =
    "run_name model_name override_model_config override_logical_axis_rules base_output_directory log_config log_period "
    "steps hardware save_config_to_gcs enable_tensorboard metrics_file gcs_metrics enable_wandb wandb_project_name "
    "wandb_run_name reuse_example_batch debug_sharding record_internal_nn_metrics abort_on_nan_loss abort_on_inf_loss "
    "max_checkify compiled_trainstep_file dtype weight_dtype grad_dtype mu_dtype matmul_precision "
    "activations_in_float32 cast_logits_to_fp32 logits_dot_in_fp32 float32_qk_product float32_logits "
    "float32_weight_sum float32_gate_logits quantization decoder_block global_parameter_scale base_emb_dim "
    "base_num_query_heads base_num_kv_heads base_mlp_dim base_num_decoder_layers head_dim vocab_size mlp_activations "
    "mlp_activations_limit normalization_layer_epsilon logits_via_embedding normalize_embedding_logits "
    "final_logits_soft_cap attn_logits_soft_cap dense_init_scale dropout_rate enable_dropout attention_bias mlp_bias "
    "fused_qkv fused_mlp scan_layers param_scan_axis inhomogeneous_layer_cycle_interval attention attention_type "
    "sliding_window_size chunk_attn_window_size attention_sink use_qk_norm qk_norm_with_scale v_norm_with_scale "
    "share_kv_projections global_head_dim global_num_kv_heads use_post_attn_norm use_post_ffw_norm nope_layer_interval "
    "temperature_tuning use_qk_clip qk_clip_threshold context_parallel_strategy context_parallel_load_balance "
    "rope_type rope_min_timescale rope_max_timescale local_rope_max_timescale global_rope_max_timescale "
    "local_rope_proportion global_rope_proportion rope_linear_scaling_factor rope_use_scale max_position_embeddings "
    "original_max_position_embeddings rope_factor beta_fast beta_slow mscale rope_interleave rope_truncate "
    "rope_attention_scaling partial_rotary_factor compressed_rope_max_timescale q_lora_rank kv_lora_rank "
    "qk_nope_head_dim qk_rope_head_dim v_head_dim use_indexer indexer_head_dim indexer_n_heads indexer_topk "
    "indexer_sparse_training indexer_loss_scaling_factor mla_qk_head_chunk_size o_lora_rank o_groups compress_ratios "
    "mhc_expansion_rate sinkhorn_iterations enable_mhc_lite engram_layers engram_max_ngram_size engram_num_heads "
    "engram_head_dim engram_vocab_bases engram_kernel_size engram_seed num_experts num_experts_per_tok "
    "base_moe_mlp_dim shared_experts first_num_dense_layers interleave_moe_layer_step first_num_hash_layers "
    "capacity_factor ragged_buffer_factor sparse_matmul megablox use_tokamax_gmm load_balance_loss_weight "
    "norm_topk_prob routed_score_func routed_scaling_factor routed_bias routed_bias_update_rate n_routing_groups "
    "topk_routing_group log_moe_bias_norms use_ring_of_experts use_random_routing use_ragged_sort num_moe_token_chunks "
    "mtp_num_layers mtp_loss_scaling_factor mtp_eval_target_module z_loss_multiplier num_vocab_tiling "
    "vocab_tiling_ag_once per_device_batch_size eval_per_device_batch_size max_target_length "
    "gradient_accumulation_steps enable_rampup_batch_size per_device_batch_size_start per_device_batch_size_increment "
    "global_rampup_samples opt_type adam_b1 adam_b2 adam_eps adam_eps_root adam_weight_decay adamw_mask muon_beta "
    "muon_weight_decay muon_consistent_rms gradient_clipping_threshold skip_step_on_spikes skip_step_interval "
    "skip_step_scaling_factor trainable_parameters_mask learning_rate lr_schedule_type learning_rate_final_fraction "
    "warmup_steps_fraction wsd_decay_steps_fraction wsd_decay_style learning_rate_schedule_steps eval_interval "
    "eval_steps eval_start_step target_eval_loss data_shuffle_seed init_weights_seed enable_data_shuffling "
    "dataset_type train_split eval_split packing max_segments_per_seq num_epoch add_bos add_eos use_truncation "
    "tokenize_train_data tokenize_eval_data train_data_columns eval_data_columns expansion_factor_real_data "
    "generate_padding_batch_train generate_padding_batch_eval hf_path hf_name hf_data_dir hf_train_files hf_eval_split "
    "hf_eval_files hf_access_token grain_train_files grain_eval_files grain_train_mixture_config_path grain_file_type "
    "grain_packing_type grain_worker_count grain_shuffle_buffer_size olmo_index_path olmo_path_remap_from "
    "olmo_path_remap_to olmo_apply_ngram_filter dataset_path dataset_name eval_dataset_name tokenizer_path "
    "tokenizer_type use_chat_template chat_template_path chat_template use_sft sft_train_on_completion_only use_dpo "
    "dpo.algo dpo.dpo_beta dpo.dpo_label_smoothing dpo.orpo_lambda dpo.max_prompt_length dpo_beta dpo_label_smoothing "
    "enable_checkpointing async_checkpointing checkpoint_period save_checkpoint_on_start save_checkpoint_on_completion "
    "max_num_checkpoints_to_keep enable_continuous_checkpointing enable_autocheckpoint load_parameters_path "
    "load_full_state_path source_checkpoint_layout ici_data_parallelism ici_fsdp_parallelism "
    "ici_fsdp_transpose_parallelism ici_context_parallelism ici_tensor_parallelism ici_tensor_sequence_parallelism "
    "ici_expert_parallelism ici_pipeline_parallelism ici_autoregressive_parallelism ici_diloco_parallelism "
    "dcn_data_parallelism dcn_fsdp_parallelism dcn_fsdp_transpose_parallelism dcn_context_parallelism "
    "dcn_tensor_parallelism dcn_tensor_sequence_parallelism dcn_expert_parallelism dcn_pipeline_parallelism "
    "dcn_autoregressive_parallelism dcn_diloco_parallelism mesh_axes logical_axis_rules data_sharding shard_mode "
    "sharding_tolerance shard_optimizer_over_data custom_mesh_and_rule num_slices skip_jax_distributed_system "
    "num_layers_per_pipeline_stage num_pipeline_microbatches num_pipeline_repeats pipeline_parallel_layers "
    "remat_policy decoder_layer_input context mlpwi mlpwi_0 mlpwi_1 mlpwo moe_mlpwi_0 moe_mlpwi_1 moe_mlpwo query_proj "
    "key_proj value_proj kv_proj qkv_proj out_proj query_wa_proj kv_wa_proj mla_q mla_kv attention_out engram "
    "optimizer_memory_host_offload parameter_memory_host_offload profiler skip_first_n_steps_for_profiler "
    "profiler_steps profile_periodically_period profile_cleanly hide_profiler_step_metric upload_all_profiler_results "
    "moe_global_load_balancing moe_aux_loss_reduction olmo_segment_ids_from_eos olmoe3_mixers_ignore_segment_ids "
    "warmup_step_offset olmo_global_indices_path vocab_tiling_seq_major ga_params_loop_barrier";

/// Values that differ from the key's default, whatever its rule says of them.
std::vector<std::string> other_values(const KeyInfo& key) {
  std::vector<std::string> texts;
  switch (key.kind) {
    case ValueKind::kBool:
      texts = {"true", "false"};
      break;
    case ValueKind::kInt:
    case ValueKind::kDouble:
      texts = {"-1", "0", "1", "2", "3", "4"};
      break;
    case ValueKind::kString:
      texts = {"some_word"};
      for (const std::string_view list : {key.rule.values, key.rule.later_values, key.rule.refused_values}) {
        for (const std::string& word : split_words(list)) texts.push_back(word);
      }
      break;
    case ValueKind::kStrings:
      texts = {"[some_word]", "[gelu, linear]"};
      break;
    case ValueKind::kInts:
      texts = {"[2]"};
      break;
    case ValueKind::kAny:
      texts = {"[[a, b]]"};
      break;
  }
  std::erase_if(texts, [&](const std::string& text) {
    const std::optional<TypedValue> value = key.read(*parse_flow(text));
    return value && *value == key.default_value();
  });
  return texts;
}

/// Names behind `config.` in the sources: the fields that something reads.
const std::set<std::string>& fields_read() {
  static const std::set<std::string> names = [] {
    std::set<std::string> found;
    const std::regex use(R"(\bconfig_?\.(\w+))");
    for (const char* folder : {"src", "apps"}) {
      for (const auto& entry : std::filesystem::recursive_directory_iterator(kSourceFolder + "/" + folder)) {
        if (entry.path().extension() != ".cpp") continue;
        std::ifstream file(entry.path());
        const std::string text{std::istreambuf_iterator<char>(file), {}};
        for (std::sregex_iterator match(text.begin(), text.end(), use), end; match != end; ++match) {
          found.insert((*match)[1]);
        }
      }
    }
    return found;
  }();
  return names;
}

/// Working keys that no field access shows, and why.
const std::set<std::string> kReadElsewhere = {
    "override_model_config",  // read by name while the layers are merged
};

/// What became of one value: an error line, else warnings.
struct Outcome {
  std::string error, log;
  std::optional<TypedValue> held;
};

Outcome set_value_of(const KeyInfo& key, const std::string& text) {
  Outcome outcome;
  testing::internal::CaptureStderr();
  try {
    const Config config = config_from_pairs({std::string(key.name) + "=" + text});
    outcome.held = get_value(config, key);
  } catch (const ConfigError& error) {
    outcome.error = error.what();
  }
  outcome.log = testing::internal::GetCapturedStderr();
  return outcome;
}

void expect_not_silent(const KeyInfo& key, const std::string& text) {
  if (key.name == "hardware" && text == "tpu") return;  // taken as auto, a run says so
  const std::string pair = std::string(key.name) + "=" + text;
  const Outcome outcome = set_value_of(key, text);
  if (!outcome.error.empty()) {
    EXPECT_NE(outcome.error.find(key.name), std::string::npos) << pair << ": " << outcome.error;
    EXPECT_EQ(outcome.error.find('\n'), std::string::npos) << pair << ": " << outcome.error;
    return;
  }
  switch (key.rule.effect) {
    case Effect::kWorks:
      EXPECT_EQ(outcome.held, key.read(*parse_flow(text))) << pair;
      EXPECT_TRUE(fields_read().contains(std::string(key.name)) || kReadElsewhere.contains(std::string(key.name)))
          << pair << ": nothing reads the key";
      break;
    case Effect::kNoEffect:
      EXPECT_NE(outcome.log.find(key.name), std::string::npos) << pair << " draws no line";
      EXPECT_NE(outcome.log.find("has no effect"), std::string::npos) << pair << ": " << outcome.log;
      break;
    case Effect::kPlanned:
    case Effect::kRefused:
      EXPECT_TRUE(key.is_listed(text)) << pair << " is not neutral, and accepted";
      break;
    case Effect::kComputed:
      ADD_FAILURE() << pair << " was set";
  }
}

TEST(AllKeys, NoValueIsSilentlyIgnored) {
  for (const KeyInfo& key : key_table()) {
    // A model or a data folder would have to exist.
    if (key.name == "model_name" || key.name == "hf_model_path") continue;
    for (const std::string& text : other_values(key)) expect_not_silent(key, text);
  }
}

TEST(AllKeys, OfMaxTextAreKnown) {
  std::istringstream words(kMaxTextKeys);
  int count = 0;
  for (std::string name; words >> name; ++count) EXPECT_NE(find_key(name), nullptr) << name;
  EXPECT_GT(count, 280);
}

}  // namespace
}  // namespace ballast
