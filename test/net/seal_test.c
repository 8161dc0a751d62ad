// SPDX-License-Identifier: Apache-2.0

#include "net/seal.h"

#include "base/base.h"
#include "test.h"

static const uint8_t secret[seal_secret_size] = "0123456789abcdef0123456789abcde";
static const uint8_t other_secret[seal_secret_size] = "0123456789abcdef0123456789abcdE";
static struct seal *seal;
static uint8_t sealed[256];
static uint8_t plain[256];

static void open_with(const uint8_t *with, const char *label)
{
    seal_destroy(&seal);
    ASSERT(seal_create(with, slice_str(label), &seal) == STATUS_OK);
}

static void lock_text(uint64_t number, const char *about, const char *text)
{
    memset(sealed, 0, sizeof(sealed));
    ASSERT(seal_lock(seal, number, slice_str(about), slice_str(text), sealed) == STATUS_OK);
}

static enum status unlock_text(uint64_t number, const char *about, const char *text)
{
    memset(plain, 'x', sizeof(plain));
    return seal_unlock(seal, number, slice_str(about),
                       slice_of(sealed, strlen(text) + seal_tag_size), plain);
}

TEST(a_message_is_read_with_the_same_secret_label_number_and_about)
{
    static const char *const texts[] = {"", "a", "exactly sixteen!", "a somewhat longer message"};
    for (size_t i = 0; i < ARRAY_COUNT(texts); i++) {
        open_with(secret, "label");
        lock_text(7, "about", texts[i]);
        open_with(secret, "label");
        CHECK_EQ(unlock_text(7, "about", texts[i]), STATUS_OK);
        CHECK(memcmp(plain, texts[i], strlen(texts[i])) == 0);
        CHECK_EQ(plain[strlen(texts[i])], 'x');
    }
    lock_text(UINT64_MAX, "", "x");
    CHECK_EQ(unlock_text(UINT64_MAX, "", "x"), STATUS_OK);
    seal_destroy(&seal);
    seal_destroy(&seal);
}

TEST(any_difference_is_refused_and_leaves_no_plain_text)
{
    static const char text[] = "attack at dawn";
    open_with(secret, "label");
    lock_text(7, "about", text);
    CHECK_EQ(unlock_text(8, "about", text), STATUS_MALFORMED);
    CHECK_EQ(unlock_text(7, "abouT", text), STATUS_MALFORMED);
    CHECK_EQ(unlock_text(7, "", text), STATUS_MALFORMED);
    CHECK(memcmp(plain, text, 4) != 0);
    open_with(secret, "Label");
    CHECK_EQ(unlock_text(7, "about", text), STATUS_MALFORMED);
    open_with(other_secret, "label");
    CHECK_EQ(unlock_text(7, "about", text), STATUS_MALFORMED);
    open_with(secret, "label");
    for (size_t bit = 0; bit < (strlen(text) + seal_tag_size) * 8; bit++) {
        sealed[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK_EQ(unlock_text(7, "about", text), STATUS_MALFORMED);
        sealed[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
    CHECK_EQ(unlock_text(7, "about", text), STATUS_OK);
    for (size_t size = 0; size < strlen(text) + seal_tag_size; size++) {
        CHECK_EQ(seal_unlock(seal, 7, slice_str("about"), slice_of(sealed, size), plain),
                 STATUS_MALFORMED);
    }
    seal_destroy(&seal);
}

TEST(each_number_hides_the_text_in_another_way)
{
    uint8_t first[64];
    open_with(secret, "label");
    lock_text(1, "", "the same text");
    memcpy(first, sealed, sizeof(first));
    lock_text(2, "", "the same text");
    CHECK(memcmp(first, sealed, 13) != 0);
    CHECK(memmem(sealed, sizeof(sealed), "same", 4) == NULL);
    lock_text(1, "", "the same text");
    CHECK(memcmp(first, sealed, 13 + seal_tag_size) == 0);
    seal_destroy(&seal);
}

// Computed with the Python package cryptography: HKDF(SHA256, 32, salt=None, info=b"label"), then
// AESGCM(key).encrypt(bytes(11) + b"\x07", b"text", b"about").
TEST(the_bytes_are_those_of_hkdf_and_gcm)
{
    static const uint8_t expected[] = {0x7c, 0xde, 0x15, 0x1d, 0x50, 0xd2, 0x17, 0x74, 0x07, 0x5d,
                                       0xbc, 0x87, 0x60, 0xad, 0x69, 0x89, 0x54, 0xea, 0x4d, 0xfb};
    open_with(secret, "label");
    lock_text(7, "about", "text");
    CHECK(memcmp(sealed, expected, sizeof(expected)) == 0);
    seal_destroy(&seal);
}

TEST(a_text_of_any_length_makes_a_secret)
{
    // printf abc | sha256sum
    static const uint8_t expected[] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea};
    uint8_t made[seal_secret_size];
    CHECK_EQ(seal_secret_of(slice_str("abc"), made), STATUS_OK);
    CHECK(memcmp(made, expected, sizeof(expected)) == 0);
    CHECK_EQ(seal_secret_of(slice_str(""), made), STATUS_OK);
    CHECK(memcmp(made, expected, sizeof(expected)) != 0);
}

TEST(a_text_of_any_size_is_a_secret)
{
    // SHA-256 of "abc", from FIPS 180-2.
    static const uint8_t expected[seal_secret_size] = {
        0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
        0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
        0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
    uint8_t made[seal_secret_size] = {0};
    uint8_t other[seal_secret_size] = {0};
    CHECK_EQ(seal_secret_of(slice_str("abc"), made), STATUS_OK);
    CHECK(memcmp(made, expected, sizeof(made)) == 0);
    CHECK_EQ(seal_secret_of(slice_str("abcd"), other), STATUS_OK);
    CHECK(memcmp(made, other, sizeof(made)) != 0);
    CHECK_EQ(seal_secret_of(slice_str(""), other), STATUS_OK);
}
