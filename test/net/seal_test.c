// SPDX-License-Identifier: Apache-2.0

#include "net/seal.h"

#include "test.h"

TEST(a_text_of_any_size_is_a_secret)
{
    // SHA-256 of "abc", from FIPS 180-2.
    static const uint8_t expected[seal_secret_size] = {
        0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
        0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
        0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    uint8_t secret[seal_secret_size] = {0};
    uint8_t other[seal_secret_size] = {0};
    CHECK_EQ(seal_secret_of(slice_str("abc"), secret), STATUS_OK);
    CHECK(memcmp(secret, expected, sizeof(secret)) == 0);
    CHECK_EQ(seal_secret_of(slice_str("abcd"), other), STATUS_OK);
    CHECK(memcmp(secret, other, sizeof(secret)) != 0);
    CHECK_EQ(seal_secret_of(slice_str(""), other), STATUS_OK);
}
