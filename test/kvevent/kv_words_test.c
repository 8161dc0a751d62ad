// SPDX-License-Identifier: Apache-2.0

#include "kvevent/kv_words.h"

#include "test.h"

TEST(media_are_known_in_any_case_and_unknown_ones_are_the_slowest_tier)
{
    CHECK_EQ(kv_tier_of(slice_str("")), PREFIX_GPU);
    CHECK_EQ(kv_tier_of(slice_str("gpu")), PREFIX_GPU);
    CHECK_EQ(kv_tier_of(slice_str("cpu")), PREFIX_HOST);
    CHECK_EQ(kv_tier_of(slice_str("CPU_PINNED")), PREFIX_HOST);
    CHECK_EQ(kv_tier_of(slice_str("STORAGE")), PREFIX_DISK);
    CHECK_EQ(kv_tier_of(slice_str("DISK")), PREFIX_DISK);
    CHECK_EQ(kv_tier_of(slice_str("GPU2")), PREFIX_DISK);
}

TEST(only_attention_that_keeps_every_block_decides)
{
    static const char *const others[] = {
        "sliding_window",         "sliding_window_mla", "mamba",   "chunked_local_attention",
        "encoder_only_attention", "cross_attention",    "unknown", "FULL_ATTENTION"};
    CHECK(kv_attention_decides(slice_str("")));
    CHECK(kv_attention_decides(slice_str("full_attention")));
    CHECK(kv_attention_decides(slice_str("mla_attention")));
    CHECK(kv_attention_decides(slice_str("sink_full_attention")));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        CHECK(!kv_attention_decides(slice_str(others[i])));
    }
}
