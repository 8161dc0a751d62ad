// SPDX-License-Identifier: Apache-2.0

#include "config/option/option_kind.h"

#include "base/base.h"
#include "config/option/option.h"
#include "test.h"

static char why_text[512];

// The number that `text` means for the row, or -1 with why_text.
static int64_t number(const char *row, const char *text)
{
    const struct config_option *option = config_option_find(&config_options, row);
    struct text why = text_over(why_text, sizeof(why_text) - 1);
    uint64_t field = 0;

    ASSERT(option != NULL && option->size <= sizeof(field));
    bool accepted = option->kind->read(option, text, &field, &why);
    why_text[why.size] = '\0';
    return accepted ? (int64_t)field : -1;
}

// The string that `text` is for a list or a string, or NULL with why_text.
static const char *string(const char *row, const char *text)
{
    const struct config_option *option = config_option_find(&config_options, row);
    struct text why = text_over(why_text, sizeof(why_text) - 1);
    const char *field = NULL;

    ASSERT(option != NULL);
    bool accepted = option->kind->read(option, text, &field, &why);
    why_text[why.size] = '\0';
    return accepted ? field : NULL;
}

TEST(a_size_is_bytes_or_binary_multiples)
{
    CHECK_EQ(number("limits.body_size", "4096"), 4096);
    CHECK_EQ(number("limits.body_size", "8k"), 8 << 10);
    CHECK_EQ(number("limits.body_size", "8K"), 8 << 10);
    CHECK_EQ(number("limits.body_size", "8KiB"), 8 << 10);
    CHECK_EQ(number("limits.body_size", "32m"), 32 << 20);
    CHECK_EQ(number("limits.body_size", "32MiB"), 32 << 20);
    CHECK_EQ(number("limits.body_size", "1g"), 1 << 30);
    CHECK_EQ(number("limits.body_memory", "1024GiB"), 1LL << 40);

    static const char *const bad[] = {"",
                                      "k",
                                      "-1",
                                      "1.5m",
                                      "8kb",
                                      "8 k",
                                      "0x10",
                                      "1_000",
                                      "8mb",
                                      "1kk",
                                      "8ki",
                                      "+8k",
                                      " 8k",
                                      "8k ",
                                      "18446744073709551616",
                                      "18014398509481985k"};
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        CHECK_EQ(number("limits.body_size", bad[i]), -1);
    }
}

TEST(a_duration_without_a_unit_is_seconds)
{
    CHECK_EQ(number("timeouts.body", "30"), 30000);
    CHECK_EQ(number("timeouts.body", "500ms"), 500);
    CHECK_EQ(number("timeouts.body", "30s"), 30000);
    CHECK_EQ(number("timeouts.body", "5m"), 300000);
    CHECK_EQ(number("timeouts.body", "1h"), 3600000);
    CHECK_EQ(number("timeouts.request", "0"), 0);
    CHECK_EQ(number("timeouts.request", "24h"), 86400000);
    CHECK_EQ(number("timeouts.body", "1d"), -1);
    CHECK_EQ(number("timeouts.body", "0.5s"), -1);
}

TEST(a_fraction_of_a_unit_is_exact_or_refused)
{
    static const struct {
        const struct config_kind *kind;
        const char *text;
        uint32_t number; // 0: refused
    } cases[] = {
        {&config_kind_milliseconds, "0.5", 500},
        {&config_kind_milliseconds, "1.001s", 1001},
        {&config_kind_milliseconds, "2.007", 2007},
        {&config_kind_milliseconds, "1.5ms", 0},
        {&config_kind_amount, "1.001k", 1001},
        {&config_kind_amount, "1.0005k", 0},
        {&config_kind_amount, "4.294967295g", UINT32_MAX},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        const struct config_option row = {.kind = cases[i].kind, .size = sizeof(uint32_t)};
        struct text why = text_over(why_text, sizeof(why_text));
        uint32_t field = 0;
        CHECK_EQ(row.kind->read(&row, cases[i].text, &field, &why), cases[i].number > 0);
        CHECK_EQ(field, cases[i].number);
    }
}

TEST(a_refusal_names_the_accepted_forms_and_the_bounds)
{
    CHECK_EQ(number("limits.uri_size", "x"), -1);
    CHECK_STR(why_text, "\"x\" is not a size: write a number of bytes such as 4096, or 8k, 32m, 1g "
                        "(8KiB, 32MiB, 1GiB are the same: k is 1024), from 256 to 256k");
    CHECK_EQ(number("limits.uri_size", "255"), -1);
    CHECK_STR(why_text, "255 is too small, the least is 256");
    CHECK_EQ(number("limits.uri_size", "1m"), -1);
    CHECK_STR(why_text, "1m is too large, the most is 256k");
    CHECK_EQ(number("authorization", "drop"), -1);
    CHECK_STR(why_text, "\"drop\" is not one of forward|replace|strip");
    CHECK_EQ(number("half_close", "True"), -1);
    CHECK_STR(why_text, "\"True\" is not a switch: write true or false (yes and no, on and off do "
                        "as well)");
}

TEST(a_switch_knows_three_pairs_of_words)
{
    CHECK_EQ(number("half_close", "true"), 1);
    CHECK_EQ(number("half_close", "yes"), 1);
    CHECK_EQ(number("half_close", "on"), 1);
    CHECK_EQ(number("half_close", "false"), 0);
    CHECK_EQ(number("half_close", "no"), 0);
    CHECK_EQ(number("half_close", "off"), 0);
    CHECK_EQ(number("half_close", "1"), -1);
    CHECK_EQ(number("half_close", ""), -1);
}

TEST(a_choice_is_the_index_of_its_word)
{
    CHECK_EQ(number("log.level", "error"), 0);
    CHECK_EQ(number("log.level", "debug"), 3);
    CHECK_EQ(number("log.level", "warn|info"), -1);
    CHECK_EQ(number("log.level", "inf"), -1);
    CHECK_EQ(number("log.level", ""), -1);
}

TEST(a_policy_that_does_not_exist_is_named_with_its_nearest)
{
    CHECK_STR(string("policy", "round_robin"), "round_robin");
    CHECK(string("policy", "round_robn") == NULL);
    CHECK_STR(why_text, "\"round_robn\" is not a policy; did you mean \"round_robin\"?");
    CHECK(string("policy", "magic") == NULL);
    CHECK(strstr(why_text, "round_robin") != NULL);
}

TEST(a_path_starts_with_a_slash_and_has_no_spaces)
{
    CHECK_STR(string("health.path", "/health?full=1"), "/health?full=1");
    CHECK(string("health.path", "health") == NULL);
    CHECK(string("health.path", "/a b") == NULL);
    CHECK(string("health.path", "/a#b") == NULL);
    CHECK(string("health.path", "/a\nb") == NULL);
    CHECK(string("health.path", "/\xc3\xa9") == NULL);
    CHECK(string("health.path", "") == NULL);
}

TEST(a_header_name_is_a_token)
{
    CHECK_STR(string("session_headers", "X-Session_Id"), "X-Session_Id");
    CHECK(string("session_headers", "x-session:") == NULL);
    CHECK(string("session_headers", "x session") == NULL);
    CHECK(string("session_headers", "") == NULL);
}

TEST(a_retryable_status_is_one_of_five)
{
    CHECK_STR(string("retry.on", "429"), "429");
    CHECK_STR(string("retry.on", "500"), "500");
    CHECK_STR(string("retry.on", "504"), "504");
    CHECK(string("retry.on", "501") == NULL);
    CHECK_STR(why_text, "\"501\" is not a retryable status: write 429, 500, 502, 503 or 504");
    CHECK(string("retry.on", "5xx") == NULL);
    CHECK(string("retry.on", " 502") == NULL);
    CHECK(string("retry.on", "") == NULL);
}

TEST(a_secret_never_shows_in_the_message)
{
    CHECK_STR(string("api_key", "sk-123"), "sk-123");
    CHECK(string("api_key", "hush hush") == NULL);
    CHECK(strstr(why_text, "hush") == NULL);
    CHECK(string("api_key", "hush\r\nX-Evil: 1") == NULL);
    CHECK(string("api_key", "") == NULL);
    char large[config_secret_size_max + 2];
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    CHECK(string("api_key", large) == NULL);
    large[sizeof(large) - 2] = '\0';
    CHECK(string("api_key", large) == large);
}

TEST(text_has_a_length_and_no_control_characters)
{
    CHECK_STR(string("tls.key", "/etc/a b/\xc3\xa9.pem"), "/etc/a b/\xc3\xa9.pem");
    CHECK(string("tls.key", "") == NULL);
    CHECK_STR(why_text, "must not be empty");
    CHECK(string("tls.key", "a\tb") == NULL);
    CHECK(string("tls.key", "a\x7f") == NULL);
    char large[5000];
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    CHECK(string("tls.key", large) == NULL);
    CHECK_STR(why_text, "4999 bytes are too many, the most is 4096");
}

TEST(a_quote_in_a_message_is_short_and_printable)
{
    char space[128];
    struct text text = text_over(space, sizeof(space));
    config_quote(&text, "a\nb\xff");
    CHECK(slice_is(text_slice(&text), "\"a?b?\""));

    text = text_over(space, sizeof(space));
    config_quote(&text, "0123456789012345678901234567890123456789012345678901234567890");
    CHECK(slice_is(text_slice(&text), "\"012345678901234567890123456789012345678901234567...\""));
}

TEST(every_kind_has_words_for_the_manual)
{
    uint32_t count = 0;
    for (; config_kind_at(count) != NULL; count++) {
        const struct config_kind *kind = config_kind_at(count);
        CHECK(kind->name[0] != '\0' && kind->word[0] != '\0' && kind->accepts[0] != '\0');
    }
    CHECK_EQ(count, 23);
}
