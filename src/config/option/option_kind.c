// SPDX-License-Identifier: Apache-2.0

#include "config/option/option_kind.h"

#include "base/base.h"
#include "config/backend_events.h"
#include "config/endpoint.h"
#include "config/option/nearest.h"
#include "config/option/option.h"
#include "policy/policy.h"

enum { string_size_max = 4096, quoted_size_max = 48 };

typedef bool number_fn(struct slice text, uint64_t *out);

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
    if (option->low != NULL) {
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
static bool number_and_unit(struct slice text, uint64_t *number, struct slice *unit)
{
    size_t digits = 0;
    while (digits < text.size && text.bytes[digits] >= '0' && text.bytes[digits] <= '9') {
        digits++;
    }
    *unit = slice_of(text.bytes + digits, text.size - digits);
    return slice_parse_u64(slice_of(text.bytes, digits), number);
}

struct kind_unit {
    const char *name;
    uint64_t factor;
};

static bool kind_number_in(struct slice text, const struct kind_unit *units, size_t unit_count,
                           uint64_t *out)
{
    uint64_t number;
    struct slice unit;

    if (!number_and_unit(text, &number, &unit)) {
        return false;
    }
    for (size_t i = 0; i < unit_count; i++) {
        if (slice_is_nocase(unit, units[i].name)) {
            return !__builtin_mul_overflow(number, units[i].factor, out);
        }
    }
    return false;
}

static bool number_of_bytes(struct slice text, uint64_t *out)
{
    static const struct kind_unit units[] = {
        {"", 1},          {"k", 1 << 10}, {"KiB", 1 << 10}, {"m", 1 << 20},
        {"MiB", 1 << 20}, {"g", 1 << 30}, {"GiB", 1 << 30},
    };
    return kind_number_in(text, units, ARRAY_COUNT(units), out);
}

static bool number_of_ms(struct slice text, uint64_t *out)
{
    static const struct kind_unit units[] = {
        {"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000},
    };
    return kind_number_in(text, units, ARRAY_COUNT(units), out);
}

static void store_number(const struct config_option *option, uint64_t number, void *field)
{
    if (option->size == sizeof(uint64_t)) {
        memcpy(field, &number, sizeof(number));
    } else {
        ASSERT(option->size == sizeof(uint32_t) && number <= UINT32_MAX);
        uint32_t narrow = (uint32_t)number;
        memcpy(field, &narrow, sizeof(narrow));
    }
}

static bool kind_read_number(const struct config_option *option, const char *text, number_fn *parse,
                             void *field, struct text *why)
{
    uint64_t number;
    uint64_t low;
    uint64_t high;

    bool bounded = parse(slice_str(option->low), &low) && parse(slice_str(option->high), &high);
    ASSERT(bounded);
    if (!parse(slice_str(text), &number)) {
        return kind_refuse(option, text, why);
    }
    if (number < low) {
        text_add_format(why, "%.40s is too small, the least is %s", text, option->low);
        return false;
    }
    if (number > high) {
        text_add_format(why, "%.40s is too large, the most is %s", text, option->high);
        return false;
    }
    store_number(option, number, field);
    return true;
}

static bool kind_read_count(const struct config_option *option, const char *text, void *field,
                            struct text *why)
{
    return kind_read_number(option, text, slice_parse_u64, field, why);
}

static bool read_size(const struct config_option *option, const char *text, void *field,
                      struct text *why)
{
    return kind_read_number(option, text, number_of_bytes, field, why);
}

static bool kind_read_duration(const struct config_option *option, const char *text, void *field,
                               struct text *why)
{
    return kind_read_number(option, text, number_of_ms, field, why);
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

static bool read_policy(const struct config_option *option, const char *text, void *field,
                        struct text *why)
{
    struct config_nearest nearest = {.word = text};
    (void)option;

    if (policy_find(text) != NULL) {
        *(const char **)field = text;
        return true;
    }
    config_quote(why, text);
    text_add_str(why, " is not a policy");
    for (uint32_t i = 0; policy_at(i) != NULL; i++) {
        config_nearest_offer(&nearest, policy_at(i)->name);
    }
    if (nearest.best != NULL) {
        text_add_format(why, "; did you mean \"%s\"?", nearest.best);
        return false;
    }
    text_add_str(why, "; there are");
    for (uint32_t i = 0; policy_at(i) != NULL; i++) {
        text_add_format(why, "%s %s", i > 0 ? "," : "", policy_at(i)->name);
    }
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

static bool read_url(const struct config_option *option, const char *text, void *field,
                     struct text *why)
{
    struct config_endpoint parts;
    return kind_read_string(option, text, field, why) &&
           read_endpoint(text, config_url_split(slice_str(text), &parts), field, why);
}

static bool read_collector(const struct config_option *option, const char *text, void *field,
                           struct text *why)
{
    struct config_endpoint parts;
    struct slice path;
    return kind_read_string(option, text, field, why) &&
           read_endpoint(text, config_collector_split(slice_str(text), &parts, &path), field, why);
}

static bool read_address(const struct config_option *option, const char *text, void *field,
                         struct text *why)
{
    struct config_endpoint parts;
    return kind_read_string(option, text, field, why) &&
           read_endpoint(text, config_address_split(slice_str(text), &parts), field, why);
}

static bool read_server(const struct config_option *option, const char *text, void *field,
                        struct text *why)
{
    struct config_endpoint parts;
    return kind_read_string(option, text, field, why) &&
           read_endpoint(text, config_server_split(slice_str(text), &parts), field, why);
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

static bool read_header(const struct config_option *option, const char *text, void *field,
                        struct text *why)
{
    // RFC 9110, 5.6.2: a token.
    return is_made_of(text, "!#$%&'*+-.^_`|~") ? kind_read_string(option, text, field, why)
                                               : kind_refuse(option, text, why);
}

static bool kind_read_name(const struct config_option *option, const char *text, void *field,
                           struct text *why)
{
    return is_made_of(text, "-_.") ? kind_read_string(option, text, field, why)
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

#define KIND(id, title, stands_for, reader, phrase)                                                \
    const struct config_kind config_kind_##id = {                                                  \
        .name = (title),                                                                           \
        .word = (stands_for),                                                                      \
        .accepts = (phrase),                                                                       \
        .read = (reader),                                                                          \
    }

KIND(toggle, "switch", "BOOL", read_toggle,
     "`true` or `false` (`yes` and `no`, `on` and `off` do as well)");
KIND(count, "number", "NUMBER", kind_read_count, "a whole number in digits");
KIND(
    size, "size", "SIZE", read_size,
    "a number of bytes such as `4096`, or `8k`, `32m`, `1g` (`8KiB`, `32MiB`, `1GiB` are the same: "
    "k is 1024)");
KIND(duration, "duration", "TIME", kind_read_duration,
     "a number of seconds such as `30`, or `500ms`, `30s`, `5m`, `1h`");
KIND(offset, "time zone", "OFFSET", read_offset, "hours and minutes east of UTC such as `+02:00`");
KIND(choice, "choice", "WORD", kind_read_choice, "one of the words listed with the option");
KIND(policy, "policy", "POLICY", read_policy, "the name of a policy");
KIND(url, "URL", "URL", read_url, "`http://host:port` or `https://host:port`");
KIND(collector, "URL with a path", "URL", read_collector,
     "a URL as above, perhaps with a path behind it");
KIND(address, "address", "ADDRESS", read_address,
     "`ip:port`, `[ipv6]:port`, or `:port` or `*:port` for every address of the machine");
KIND(server, "name server", "ADDRESS", read_server, "an address, with or without a port");
KIND(endpoint, "endpoint", "ENDPOINT", read_socket,
     "`tcp://host:port`, `tcp://*:port` or `ipc://path`, as ZeroMQ spells it");
KIND(endpoint_or_none, "endpoint or none", "ENDPOINT", read_socket_or_none,
     "an endpoint, or the word `none`");
KIND(event_source, "endpoint, none or poll", "ENDPOINT", read_events,
     "an endpoint, or one of the words `none` and `poll`");
KIND(path, "path", "PATH", read_path, "a path that starts with `/`, without spaces");
KIND(header, "header name", "HEADER", read_header, "the name of a header, without the colon");
KIND(name, "name", "NAME", kind_read_name, "letters, digits, `-`, `_` and `.`");
KIND(text, "text", "TEXT", kind_read_string, "any text on one line");
KIND(file, "file", "FILE", kind_read_string, "the path of a file");
KIND(secret, "secret", "SECRET", kind_read_secret, "visible ASCII characters without spaces");
KIND(secret_file, "secret file", "FILE", kind_read_string,
     "the path of a file that holds a secret and nothing else");

const struct config_kind *config_kind_at(uint32_t index)
{
    static const struct config_kind *const kinds[] = {
#define X(name) &config_kind_##name,
        CONFIG_KIND_MAP(X)
#undef X
    };
    return index < ARRAY_COUNT(kinds) ? kinds[index] : NULL;
}
