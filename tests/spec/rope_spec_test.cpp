// SPDX-License-Identifier: Apache-2.0
#include "spec/rope_spec.h"

#include <cmath>

#include "spec/spec_case.h"

namespace ballast {
namespace {

using testing::small_error;
using testing::small_spec;

// The reference numbers come from the formulas in docs/hf_config.md, evaluated in double by numpy.

RopeSpec scaled(RopeScaling scaling, double theta, int64_t rotary_dim, double factor, double original_length) {
  RopeSpec rope;
  rope.scaling = scaling;
  rope.theta = theta;
  rope.rotary_dim = rotary_dim;
  rope.factor = factor;
  rope.original_max_position_embeddings = original_length;
  return rope;
}

void expect_frequencies(const RopeSpec& rope, const std::vector<double>& wanted) {
  const std::vector<double> frequencies = rope_frequencies(rope);
  ASSERT_EQ(frequencies.size(), wanted.size());
  for (size_t j = 0; j < wanted.size(); ++j) EXPECT_NEAR(frequencies[j] / wanted[j], 1.0, 1e-14) << "pair " << j;
}

void expect_pairs(const RopeSpec& rope, const std::vector<std::pair<size_t, double>>& wanted) {
  const std::vector<double> frequencies = rope_frequencies(rope);
  for (const auto& [j, value] : wanted) EXPECT_NEAR(frequencies.at(j) / value, 1.0, 1e-14) << "pair " << j;
}

TEST(RopeFrequencies, AreAGeometricSeries) {
  expect_frequencies(scaled(RopeScaling::kDefault, 10000, 8, 1, 0), {1, 0.1, 0.01, 0.001});
  expect_frequencies(scaled(RopeScaling::kDefault, 500000, 16, 1, 0),
                     {1, 0.1939227447486858, 0.03760603093086393, 0.007292664737217109, 0.001414213562373095,
                      0.0002742481756762073, 5.318295896944988e-05, 1.031338537721246e-05});
}

TEST(RopeFrequencies, AreDividedByTheLinearFactor) {
  expect_frequencies(scaled(RopeScaling::kLinear, 10000, 8, 8, 0), {0.125, 0.0125, 0.00125, 0.000125});
}

TEST(RopeFrequencies, KeepDivideAndBlendInLlama3) {
  expect_frequencies(scaled(RopeScaling::kLlama3, 500000, 16, 8, 32),
                     {1, 0.02424034309358572, 0.004700753866357992, 0.0009115830921521387, 0.0001767766952966369,
                      3.428102195952591e-05, 6.647869871181235e-06, 1.289173172151557e-06});
  // Llama 3.1: pairs 0 and 28 stay, 29 to 34 are blended, 35 and up divided by 8.
  expect_pairs(scaled(RopeScaling::kLlama3, 500000, 128, 8, 8192), {{0, 1},
                                                                    {28, 0.003211445994752591},
                                                                    {29, 0.002166570763503359},
                                                                    {32, 0.0005248461609929547},
                                                                    {35, 9.556212353964683e-05},
                                                                    {36, 7.78465527393245e-05},
                                                                    {63, 3.068925988914511e-07}});
  // Llama 3.2 1B: heads of 64, factor 32.
  expect_pairs(scaled(RopeScaling::kLlama3, 500000, 64, 32, 8192), {{14, 0.003211445994752591},
                                                                    {16, 0.0004295567965593682},
                                                                    {17, 9.70828780262767e-05},
                                                                    {31, 9.41830672543491e-08}});
}

TEST(RopeFrequencies, FollowTheRampOfYarn) {
  // Ramp from pair 0 to pair 4: its real bounds are 0.2098 and 3.2201.
  expect_frequencies(scaled(RopeScaling::kYarn, 10000, 16, 4, 256),
                     {1, 0.2569350598886808, 0.0625, 0.01383496476323666, 0.0025, 0.0007905694150420948, 0.00025,
                      7.905694150420948e-05});
  expect_frequencies(scaled(RopeScaling::kYarn, 500000, 8, 8, 32),
                     {1, 0.004700753866357992, 0.0001767766952966369, 6.647869871181235e-06});
  // OLMo 3: pairs up to 18 stay, 35 and up are divided by 8.
  expect_pairs(scaled(RopeScaling::kYarn, 500000, 128, 8, 8192), {{0, 1},
                                                                  {18, 0.02495540867055869},
                                                                  {19, 0.01928275493783198},
                                                                  {30, 0.0008148398229369278},
                                                                  {34, 0.0001656130359454201},
                                                                  {35, 9.556212353964683e-05},
                                                                  {63, 3.068925988914511e-07}});
}

TEST(RopeFrequencies, UseTheRealBoundsOfYarnWithoutTruncation) {
  RopeSpec rope = scaled(RopeScaling::kYarn, 10000, 16, 4, 256);
  rope.truncate = false;
  expect_frequencies(rope, {1, 0.2539723135570063, 0.05539863663460478, 0.009639942850978619, 0.0025,
                            0.0007905694150420948, 0.00025, 7.905694150420948e-05});
}

TEST(RopeFrequencies, StepWhereTheRampOfYarnHasNoLength) {
  // Both bounds are clamped to pair 0.
  expect_frequencies(scaled(RopeScaling::kYarn, 10000, 16, 4, 6),
                     {1, 0.07905694150420949, 0.025, 0.007905694150420948, 0.0025, 0.0007905694150420948, 0.00025,
                      7.905694150420948e-05});
}

RopeSpec rope_of(const std::vector<std::string>& pairs) {
  return small_spec(pairs).ropes.at(0);
}

TEST(RopeSpec, GivesLlama31MetasNumbersUnlessKeysSayOtherwise) {
  const RopeSpec meta = rope_of({"rope_type=llama3.1"});
  EXPECT_EQ(meta.scaling, RopeScaling::kLlama3);
  EXPECT_EQ(meta.factor, 8);
  EXPECT_EQ(meta.low_freq_factor, 1);
  EXPECT_EQ(meta.high_freq_factor, 4);
  EXPECT_EQ(meta.original_max_position_embeddings, 8192);
  EXPECT_EQ(meta.attention_factor, 1);
  const RopeSpec own = rope_of({"rope_type=llama3.1", "rope_factor=32", "original_max_position_embeddings=4096"});
  EXPECT_EQ(own.factor, 32);
  EXPECT_EQ(own.original_max_position_embeddings, 4096);
  EXPECT_EQ(rope_of({"rope_type=llama3.1", "rope_use_scale=false"}).scaling, RopeScaling::kDefault);
}

TEST(RopeSpec, DoesNotTakeTheYarnNumbersOfBaseYmlForLlama31) {
  ConfigOptions options;
  options.configs_folder = std::string(BALLAST_SOURCE_DIR) + "/configs";
  options.environment.emplace();
  options.needs_data = false;
  Config config = resolve_config({options.configs_folder + "/base.yml", "rope_type=llama3.1"}, options);
  ASSERT_EQ(config.rope_factor, 40);
  const RopeSpec rope = make_rope_spec(config, RopeReach::kFullLayers, false);
  EXPECT_EQ(rope.factor, 8);
  EXPECT_EQ(rope.original_max_position_embeddings, 8192);
  config.rope_factor = 16;  // a base.yml of one's own
  EXPECT_EQ(make_rope_spec(config, RopeReach::kFullLayers, false).factor, 16);
  config.rope_factor = 40;
  config.set_origin("rope_factor", "my_base.yml:3");
  EXPECT_EQ(make_rope_spec(config, RopeReach::kFullLayers, false).factor, 40);
}

TEST(RopeSpec, ReadsTheYarnKeys) {
  const RopeSpec base = rope_of({"rope_type=yarn"});
  EXPECT_EQ(base.scaling, RopeScaling::kYarn);
  EXPECT_EQ(base.factor, 40);
  EXPECT_EQ(base.original_max_position_embeddings, 4096);
  EXPECT_EQ(base.beta_fast, 32);
  EXPECT_EQ(base.beta_slow, 1);
  EXPECT_TRUE(base.truncate);
  EXPECT_TRUE(base.is_interleaved);
  EXPECT_EQ(base.attention_factor, 1);
  const RopeSpec own = rope_of({"rope_type=yarn", "rope_factor=8", "beta_fast=16", "beta_slow=2", "rope_truncate=false",
                                "rope_interleave=false", "rope_max_timescale=5e5"});
  EXPECT_EQ(own.factor, 8);
  EXPECT_EQ(own.beta_fast, 16);
  EXPECT_EQ(own.beta_slow, 2);
  EXPECT_FALSE(own.truncate);
  EXPECT_FALSE(own.is_interleaved);
  EXPECT_EQ(own.theta, 500000);
}

TEST(RopeSpec, ScalesCosAndSinOfYarnOnRequest) {
  EXPECT_NEAR(rope_of({"rope_type=yarn", "rope_attention_scaling=true"}).attention_factor, 1.3688879454113936, 1e-15);
  EXPECT_NEAR(rope_of({"rope_type=yarn", "rope_attention_scaling=true", "rope_factor=8"}).attention_factor,
              1.2079441541679836, 1e-15);
  EXPECT_EQ(rope_of({"rope_type=yarn", "rope_attention_scaling=true", "rope_factor=0.5"}).attention_factor, 1);
  EXPECT_EQ(rope_of({"rope_type=yarn", "rope_attention_scaling=true", "rope_attention_factor=0.75"}).attention_factor,
            0.75);
}

TEST(RopeSpec, DividesByTheLinearFactorInBothSpellings) {
  for (const std::string type : {"default", "linear"}) {
    const RopeSpec rope = rope_of({"rope_type=" + type, "rope_linear_scaling_factor=8"});
    EXPECT_EQ(rope.scaling, RopeScaling::kLinear);
    EXPECT_EQ(rope.factor, 8);
  }
  EXPECT_EQ(rope_of({"rope_linear_scaling_factor=1"}).scaling, RopeScaling::kDefault);
}

TEST(RopeSpec, GivesSlidingLayersTheirOwnTypeAndTheta) {
  const Config config = config_from_pairs({"rope_linear_scaling_factor=8", "rope_max_timescale=1e6",
                                           "local_rope_type=default", "local_rope_max_timescale=1e4"});
  const RopeSpec full = make_rope_spec(config, RopeReach::kFullLayers, false);
  const RopeSpec sliding = make_rope_spec(config, RopeReach::kSlidingLayers, false);
  EXPECT_EQ(full.scaling, RopeScaling::kLinear);
  EXPECT_EQ(full.theta, 1e6);
  EXPECT_EQ(sliding.scaling, RopeScaling::kDefault);
  EXPECT_EQ(sliding.theta, 1e4);
  const Config global = config_from_pairs({"rope_max_timescale=1e4", "global_rope_max_timescale=1e6"});
  EXPECT_EQ(make_rope_spec(global, RopeReach::kFullLayers, false).theta, 1e6);
  EXPECT_EQ(make_rope_spec(global, RopeReach::kSlidingLayers, false).theta, 1e4);
}

TEST(RopeSpec, RotatesTheLeadingPartOfAHead) {
  EXPECT_EQ(rope_of({"partial_rotary_factor=0.25"}).rotary_dim, 2);
  EXPECT_EQ(small_error({"partial_rotary_factor=0.4"}),
            "config: command line head_dim: rotary embeddings turn pairs of channels; got 3 channels (head_dim * "
            "partial_rotary_factor), need an even number > 0");
}

TEST(RopeSpec, RefusesNumbersWithoutAMeaning) {
  EXPECT_EQ(small_error({"rope_max_timescale=1"}),
            "config: command line rope_max_timescale: not a rotary base; got 1, need a number > 1");
  EXPECT_EQ(small_error({"rope_type=llama3.1", "rope_high_freq_factor=1"}),
            "config: command line rope_high_freq_factor: the band between the two factors is empty; got 1, need more "
            "than rope_low_freq_factor=1");
  Config config = testing::config_of_small();
  config.rope_type = "spiral";
  EXPECT_THROW(make_decoder_spec(config), ConfigError);
}

// Width 64, theta 1e4, 4096 positions, factor 40: the ramp goes from pair 10 to pair 23.
TEST(RopeSpec, TurnsTheRotatingPartOfLatentAttention) {
  const Config config = config_from_pairs({"rope_type=yarn", "attention_type=mla", "decoder_block=deepseek"});
  const RopeSpec rope = make_latent_rope_spec(config, false);
  EXPECT_EQ(rope.rotary_dim, 64);
  EXPECT_TRUE(rope.is_interleaved);
  const std::vector<double> frequencies = rope_frequencies(rope);
  ASSERT_EQ(frequencies.size(), 32);
  EXPECT_EQ(frequencies[0], 1);
  EXPECT_NEAR(frequencies[10], .056234, 5e-7);
  EXPECT_NEAR(frequencies[16], .0055, 1e-12);
  EXPECT_NEAR(frequencies[23], std::pow(1e4, -46.0 / 64) / 40, 1e-15);
  EXPECT_NEAR(std::sqrt(latent_scale_factor(config)), 1.368888, 5e-7);
}

TEST(RopeSpec, InterleavesPairsOfLatentAttentionWithEveryType) {
  const auto rope_of_latent = [](const std::vector<std::string>& pairs) {
    return make_latent_rope_spec(config_from_pairs(pairs), false);
  };
  EXPECT_TRUE(rope_of_latent({"rope_type=default"}).is_interleaved);
  EXPECT_FALSE(rope_of_latent({"rope_type=default", "rope_interleave=false"}).is_interleaved);
  EXPECT_FALSE(rope_of_latent({"rope_type=yarn", "rope_interleave=false"}).is_interleaved);
  EXPECT_EQ(rope_of_latent({"qk_rope_head_dim=6"}).rotary_dim, 6);
}

TEST(RopeSpec, ScalesTheSoftmaxOfLatentAttentionWithYarnOnly) {
  const auto factor = [](const std::vector<std::string>& pairs) {
    return latent_scale_factor(config_from_pairs(pairs));
  };
  EXPECT_NEAR(factor({"rope_type=yarn", "mscale=0.707"}), 1.58963, 5e-6);
  EXPECT_EQ(factor({"rope_type=yarn", "mscale=0"}), 1);
  EXPECT_EQ(factor({"rope_type=yarn", "rope_factor=1"}), 1);
  EXPECT_EQ(factor({"rope_type=yarn", "rope_factor=0.5"}), 1);
  EXPECT_EQ(factor({"rope_type=default"}), 1);
}

}  // namespace
}  // namespace ballast
