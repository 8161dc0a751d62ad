// SPDX-License-Identifier: Apache-2.0

#include "config/option/option_kind.h"

#include "base/base.h"
#include "config/backend_events.h"
#include "config/endpoint.h"
#include "config/option/nearest.h"
#include "config/option/option.h"
#include "policy/policy.h"

#include <math.h>
#include <stdlib.h>
#include <strings.h>

enum { string_size_max = 4096, quoted_size_max = 48 };

struct kind_unit {
    const char *name;
    double factor;
};

// How a kind spells numbers and stores them.
struct kind_number {
    const struct kind_unit *units; // up to a NULL
    bool is_real;                  // a fraction is accepted: "1.5k"
    bool is_stored_real;           // the field is a double, not an integer
};

void config_quote(struct text *out, const char *text)
{
    size_t size = strlen(text);
    size_t shown = size > quoted_size_max ? quoted_size_max : size;

    text_add_str(out, "\"");
    for (size_t i = 0; i < shown; i++) {
        bool printable = text[i] >= ' ' && text[i] <= '~';
        text_add(out, printable ? slice_of(&text[i], 1) : slice_str("?"));
    }
    text_add_str(out, shown < size ? "...\"" : "\"");
}

static bool is_visible(uint8_t byte)
{
    return byte > ' ' && byte <= '~';
}

bool config_secret_is_sound(struct slice secret)
{
    for (size_t i = 0; i < secret.size; i++) {
        if (!is_visible(secret.bytes[i])) {
            return false;
        }
    }
    return secret.size > 0 && secret.size <= config_secret_size_max;
}

static bool kind_refuse(const struct config_option *option, const char *text, struct text *why)
{
    config_quote(why, text);
    text_add_format(why, " is not a %s: write ", option->kind->name);
    for (const char *at = option->kind->accepts; *at != '\0'; at++) {
        text_add(why, slice_of(at, *at != '`')); // backquotes are for the manual
    }
    if (option->low != NULL && option->high != NULL) {
        text_add_format(why, ", from %s to %s", option->low, option->high);
    }
    return false;
}

static bool read_toggle(const struct config_option *option, const char *text, void *field,
                        struct text *why)
{
    static const char *const words[] = {"false", "true", "no", "yes", "off", "on"};

    for (size_t i = 0; i < ARRAY_COUNT(words); i++) {
        if (strcmp(text, words[i]) == 0) {
            *(bool *)field = i % 2 == 1;
            return true;
        }
    }
    return kind_refuse(option, text, why);
}

// Splits "32m" into 32 and "m".
static bool number_and_unit(const char *text, bool is_real, double *number, const char **unit)
{
    char *end = NULL;
    if (is_real) {
        *number = strtod(text, &end);
        *unit = end;
        return end != text && isfinite(*number) && *number >= 0;
    }
    uint64_t whole = 0;
    size_t digits = strspn(text, "0123456789");
    bool is_number = slice_parse_u64(slice_of(text, digits), &whole);
    *number = (double)whole;
    *unit = text + digits;
    return is_number;
}

// A product of doubles may miss the whole number by its last bits: 1.001 * 1000.
static bool kind_make_whole(double *number)
{
    double whole = round(*number);
    bool is_whole = fabs(*number - whole) <= 1e-14 * whole;
    *number = whole;
    return is_whole;
}

static bool kind_parse_number(const struct config_kind *kind, const char *text, double *out)
{
    double number;
    const char *unit;

    if (!number_and_unit(text, kind->number->is_real, &number, &unit)) {
        return false;
    }
    for (const struct kind_unit *at = kind->number->units; at->name != NULL; at++) {
        if (strcasecmp(at->name, unit) == 0) {
            *out = number * at->factor;
            return kind->number->is_stored_real || kind_make_whole(out);
        }
    }
    return false;
}

static double kind_parse_bound(const struct config_kind *kind, const char *text, double otherwise)
{
    double bound = otherwise;
    bool is_number = text == NULL || kind_parse_number(kind, text, &bound);
    ASSERT(is_number);
    return bound;
}

static void store_number(const struct config_option *option, double number, void *field)
{
    if (option->kind->number->is_stored_real) {
        ASSERT(option->is_list || option->size == sizeof(number));
        memcpy(field, &number, sizeof(number));
    } else if (option->size == sizeof(uint64_t)) {
        memcpy(field, &(uint64_t){(uint64_t)number}, sizeof(uint64_t));
    } else {
        ASSERT(option->size == sizeof(uint32_t) && number <= UINT32_MAX);
        memcpy(field, &(uint32_t){(uint32_t)number}, sizeof(uint32_t));
    }
}

// The largest number that the field can hold without a bound of its row.
static double kind_number_max(const struct config_option *option)
{
    static const double exact_max = 9e15; // doubles have all integers up to here
    if (option->kind->number->is_stored_real) {
        return HUGE_VAL;
    }
    return option->size == sizeof(uint32_t) ? UINT32_MAX : exact_max;
}

static bool kind_read_number(const struct config_option *option, const char *text, void *field,
                             struct text *why)
{
    double number;
    double low = kind_parse_bound(option->kind, option->low, 0);
    double high = kind_parse_bound(option->kind, option->high, kind_number_max(option));

    if (!kind_parse_number(option->kind, text, &number)) {
        return kind_refuse(option, text, why);
    }
    if (number < low) {
        text_add_format(why, "%.40s is too small, the least is %s", text, option->low);
        return false;
    }
    if (number > high && option->high == NULL) {
        text_add_format(why, "%.40s is too large, the most is %.0f", text, high);
        return false;
    }
    if (number > high) {
        text_add_format(why, "%.40s is too large, the most is %s", text, option->high);
        return false;
    }
    store_number(option, number, field);
    return true;
}

// "+02:00", "-05:30".
static bool read_offset(const struct config_option *option, const char *text, void *field,
                        struct text *why)
{
    uint64_t hours = 0;
    uint64_t minutes = 0;
    bool sound = strlen(text) == 6 && (text[0] == '+' || text[0] == '-') && text[3] == ':' &&
                 slice_parse_u64(slice_of(text + 1, 2), &hours) &&
                 slice_parse_u64(slice_of(text + 4, 2), &minutes) && hours <= 14 && minutes < 60;
    if (!sound) {
        return kind_refuse(option, text, why);
    }
    ASSERT(option->size == sizeof(int32_t));
    int32_t seconds = (int32_t)(hours * 3600 + minutes * 60);
    *(int32_t *)field = text[0] == '-' ? -seconds : seconds;
    return true;
}

static bool kind_read_choice(const struct config_option *option, const char *text, void *field,
                             struct text *why)
{
    uint32_t index = 0;

    ASSERT(option->size == sizeof(index));
    for (const char *at = option->choices; *at != '\0'; index++) {
        size_t size = strcspn(at, "|");
        if (slice_is(slice_of(at, size), text)) {
            memcpy(field, &index, sizeof(index));
            return true;
        }
        at += size + (at[size] == '|');
    }
    config_quote(why, text);
    text_add_format(why, " is not one of %s", option->choices);
    return false;
}

// All strings are not empty and have no control characters.
static bool kind_read_string(const struct config_option *option, const char *text, void *field,
                             struct text *why)
{
    size_t size = strlen(text);

    if (size == 0) {
        text_add_str(why, "must not be empty");
        return false;
    }
    if (size > string_size_max) {
        text_add_format(why, "%zu bytes are too many, the most is %d", size, string_size_max);
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        if ((uint8_t)text[i] < ' ' || text[i] == 0x7f) {
            text_add_str(why, "must not hold control characters");
            return false;
        }
    }
    ASSERT(option->is_list || option->size == sizeof(text));
    *(const char **)field = text;
    return true;
}

static const char *policy_name_at(uint32_t index)
{
    return policy_at(index) != NULL ? policy_at(index)->name : NULL;
}

static bool read_policy(const struct config_option *option, const char *text, void *field,
                        struct text *why)
{
    (void)option;
    if (policy_find(text) != NULL) {
        *(const char **)field = text;
        return true;
    }
    config_quote(why, text);
    text_add_str(why, " is not a policy");
    config_nearest_explain(text, policy_name_at, why);
    return false;
}

// For kinds whose spelling endpoint.h knows.
static bool read_endpoint(const char *text, const char *wrong, void *field, struct text *why)
{
    if (wrong != NULL) {
        config_quote(why, text);
        text_add_format(why, ": %s", wrong);
        return false;
    }
    *(const char **)field = text;
    return true;
}

static bool read_host(const struct config_option *option, const char *text, void *field,
                      struct text *why)
{
    struct config_endpoint parts;
    return kind_read_string(option, text, field, why) &&
           read_endpoint(text, option->kind->split(slice_str(text), &parts), field, why);
}

static bool read_collector(const struct config_option *option, const char *text, void *field,
                           struct text *why)
{
    struct config_endpoint parts;
    struct slice path;
    return kind_read_string(option, text, field, why) &&
           read_endpoint(text, config_collector_split(slice_str(text), &parts, &path), field, why);
}

static bool read_socket(const struct config_option *option, const char *text, void *field,
                        struct text *why)
{
    struct config_socket parts;
    return kind_read_string(option, text, field, why) &&
           read_endpoint(text, config_socket_split(slice_str(text), &parts), field, why);
}

static bool read_socket_or_none(const struct config_option *option, const char *text, void *field,
                                struct text *why)
{
    if (strcmp(text, "none") == 0) {
        *(const char **)field = text;
        return true;
    }
    return read_socket(option, text, field, why);
}

static bool read_events(const struct config_option *option, const char *text, void *field,
                        struct text *why)
{
    if (config_events_are_polled(text)) {
        *(const char **)field = text;
        return true;
    }
    return read_socket_or_none(option, text, field, why);
}

static bool read_path(const struct config_option *option, const char *text, void *field,
                      struct text *why)
{
    bool sound = text[0] == '/' && strchr(text, '#') == NULL;
    for (const char *at = text; *at != '\0'; at++) {
        sound = sound && is_visible((uint8_t)*at);
    }
    return sound ? kind_read_string(option, text, field, why) : kind_refuse(option, text, why);
}

static bool read_retry_status(const struct config_option *option, const char *text, void *field,
                              struct text *why)
{
    static const char *const statuses[] = {"429", "500", "502", "503", "504"};

    for (size_t i = 0; i < ARRAY_COUNT(statuses); i++) {
        if (strcmp(text, statuses[i]) == 0) {
            *(const char **)field = text;
            return true;
        }
    }
    return kind_refuse(option, text, why);
}

static bool is_letter_or_digit(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= '0' && byte <= '9');
}

// True if `text` is not empty and has only letters, digits and `others`.
static bool is_made_of(const char *text, const char *others)
{
    for (const char *at = text; *at != '\0'; at++) {
        if (!is_letter_or_digit(*at) && strchr(others, *at) == NULL) {
            return false;
        }
    }
    return text[0] != '\0';
}

static bool kind_read_name(const struct config_option *option, const char *text, void *field,
                           struct text *why)
{
    return is_made_of(text, option->kind->marks) ? kind_read_string(option, text, field, why)
                                                 : kind_refuse(option, text, why);
}

static bool kind_read_secret(const struct config_option *option, const char *text, void *field,
                             struct text *why)
{
    (void)option;

    if (!config_secret_is_sound(slice_str(text))) {
        // Not quoted: messages end up in logs.
        text_add_format(why, "a secret is 1 to %d visible ASCII characters, without spaces",
                        config_secret_size_max);
        return false;
    }
    *(const char **)field = text;
    return true;
}

static bool kind_read_any(const struct config_option *option, const char *text, void *field,
                          struct text *why)
{
    (void)option;
    (void)why;
    *(const char **)field = text;
    return true;
}

static const struct kind_unit count_units[] = {{"", 1}, {NULL, 0}};
static const struct kind_unit size_units[] = {
    {"", 1},          {"k", 1 << 10}, {"KiB", 1 << 10}, {"m", 1 << 20},
    {"MiB", 1 << 20}, {"g", 1 << 30}, {"GiB", 1 << 30}, {NULL, 0},
};
static const struct kind_unit ms_units[] = {
    {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {NULL, 0},
};
static const struct kind_unit second_units[] = {
    {"", 1}, {"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}, {NULL, 0},
};
static const struct kind_unit thousand_units[] = {
    {"", 1}, {"k", 1e3}, {"m", 1e6}, {"g", 1e9}, {NULL, 0},
};

#define KIND(id, title, stands_for, reader, phrase, ...)                                           \
    const struct config_kind config_kind_##id = {                                                  \
        .name = (title), .word = (stands_for), .accepts = (phrase), .read = (reader), __VA_ARGS__}
#define NUMBER_KIND(id, title, stands_for, phrase, ...)                                            \
    KIND(id, title, stands_for, kind_read_number, phrase,                                          \
         .number = &(const struct kind_number){.units = __VA_ARGS__})

KIND(toggle, "switch", "BOOL", read_toggle,
     "`true` or `false` (`yes` and `no`, `on` and `off` do as well)");
NUMBER_KIND(count, "number", "NUMBER", "a whole number in digits", count_units);
NUMBER_KIND(
    size, "size", "SIZE",
    "a number of bytes such as `4096`, or `8k`, `32m`, `1g` (`8KiB`, `32MiB`, `1GiB` are the same: "
    "k is 1024)",
    size_units);
NUMBER_KIND(duration, "duration", "TIME",
            "a number of seconds such as `30`, or `500ms`, `30s`, `5m`, `1h`", ms_units);
KIND(offset, "time zone", "OFFSET", read_offset, "hours and minutes east of UTC such as `+02:00`");
KIND(choice, "choice", "WORD", kind_read_choice, "one of the words listed with the option");
KIND(policy, "policy", "POLICY", read_policy, "the name of a policy");
KIND(url, "URL", "URL", read_host, "`http://host:port` or `https://host:port`",
     .split = config_url_split);
KIND(collector, "URL with a path", "URL", read_collector,
     "a URL as above, perhaps with a path behind it");
KIND(address, "address", "ADDRESS", read_host,
     "`ip:port`, `[ipv6]:port`, or `:port` or `*:port` for every address of the machine",
     .split = config_address_split);
KIND(server, "name server", "ADDRESS", read_host, "an address, with or without a port",
     .split = config_server_split);
KIND(peer, "peer", "PEER", read_host, "`host:port`, or `dns+srv://name` for SRV records",
     .split = config_peer_split);
KIND(endpoint, "endpoint", "ENDPOINT", read_socket,
     "`tcp://host:port`, `tcp://*:port` or `ipc://path`, as ZeroMQ spells it");
KIND(endpoint_or_none, "endpoint or none", "ENDPOINT", read_socket_or_none,
     "an endpoint, or the word `none`");
KIND(event_source, "endpoint, none or poll", "ENDPOINT", read_events,
     "an endpoint, or one of the words `none` and `poll`");
KIND(path, "path", "PATH", read_path, "a path that starts with `/`, without spaces");
// RFC 9110, 5.6.2: a token.
KIND(header, "header name", "HEADER", kind_read_name, "the name of a header, without the colon",
     .marks = "!#$%&'*+-.^_`|~");
KIND(retry_status, "retryable status", "STATUS", read_retry_status,
     "`429`, `500`, `502`, `503` or `504`");
KIND(name, "name", "NAME", kind_read_name, "letters, digits, `-`, `_` and `.`", .marks = "-_.");
KIND(text, "text", "TEXT", kind_read_string, "any text on one line");
KIND(file, "file", "FILE", kind_read_string, "the path of a file");
KIND(secret, "secret", "SECRET", kind_read_secret, "visible ASCII characters without spaces");
KIND(secret_file, "secret file", "FILE", kind_read_string,
     "the path of a file that holds a secret and nothing else");
NUMBER_KIND(amount, "number", "NUMBER",
            "a whole number, which k, m or g may follow: `12k` is 12000", thousand_units,
            .is_real = true);
NUMBER_KIND(real, "number", "NUMBER", "a number such as `0.5`, which k, m or g may follow",
            thousand_units, .is_real = true, .is_stored_real = true);
NUMBER_KIND(whole, "number", "NUMBER", "a whole number in digits", count_units,
            .is_stored_real = true);
NUMBER_KIND(seconds, "duration", "TIME",
            "a number of seconds such as `0.5`, or `500ms`, `30s`, `5m`, `1h`", second_units,
            .is_real = true, .is_stored_real = true);
NUMBER_KIND(milliseconds, "duration", "TIME",
            "a number of seconds such as `0.5`, or `500ms`, `30s`, `5m`, `1h`", ms_units,
            .is_real = true);
KIND(any, "text", "TEXT", kind_read_any, "any text");

const struct config_kind *config_kind_at(uint32_t index)
{
    static const struct config_kind *const kinds[] = {
#define X(name) &config_kind_##name,
        CONFIG_KIND_MAP(X)
#undef X
    };
    return index < ARRAY_COUNT(kinds) ? kinds[index] : NULL;
}
