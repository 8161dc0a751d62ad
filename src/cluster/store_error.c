// SPDX-License-Identifier: Apache-2.0

#include "cluster/store_error.h"

#include "base/base.h"
#include "base/text.h"

static const struct {
    const char *start;
    enum store_remedy remedy;
} error_rows[] = {
    {"READONLY ", STORE_RELOCATE},
    {"MASTERDOWN ", STORE_RELOCATE},
    {"UNBLOCKED ", STORE_RELOCATE}, // XREAD on a master that became a replica
    {"MOVED ", STORE_MOVE},
    {"NOAUTH ", STORE_REFUSED},
    {"WRONGPASS ", STORE_REFUSED},
    {"NOPERM ", STORE_REFUSED},
    // Redis 5 and earlier.
    {"ERR invalid password", STORE_REFUSED},
    {"ERR Client sent AUTH", STORE_REFUSED},
    {"ERR AUTH ", STORE_REFUSED},
    {"ERR DB index is out of range", STORE_REFUSED},
    {"ERR SELECT is not allowed", STORE_REFUSED},
    {"ERR unknown command", STORE_UNKNOWN_COMMAND},
    {"ERR unknown subcommand", STORE_UNKNOWN_COMMAND},
    {"NOPROTO ", STORE_UNKNOWN_COMMAND},
    {"WRONGTYPE ", STORE_CLEAR},
    {"ERR The ID specified in XADD", STORE_CLEAR},
    {"ERR The stream has exhausted", STORE_CLEAR},
    // Everything else, such as OOM, LOADING and codes that do not exist yet, is waited for.
};

// "MOVED 3999 127.0.0.1:6381"; the host may be an IPv6 address without brackets, or empty.
static bool error_read_host(struct slice message, struct store_host *out)
{
    const uint8_t *space = memrchr(message.bytes, ' ', message.size);
    const uint8_t *colon = memrchr(message.bytes, ':', message.size);
    uint64_t port = 0;

    if (space == NULL || colon == NULL || colon < space) {
        return false;
    }
    struct slice name = slice_of(space + 1, (size_t)(colon - space - 1));
    struct slice digits = slice_of(colon + 1, (size_t)(slice_end(message) - colon - 1));
    if (name.size >= sizeof(out->name) || !slice_parse_u64(digits, &port) || port == 0 ||
        port > UINT16_MAX || memchr(name.bytes, '\0', name.size) != NULL) {
        return false;
    }
    memcpy(out->name, name.bytes, name.size);
    out->name[name.size] = '\0';
    out->port = (uint16_t)port;
    return true;
}

// An unknown command is quoted back with its arguments, and one of them may be the password.
static void error_write_text(struct slice message, char out[store_error_text_size])
{
    static const char arguments[] = ", with args";
    const uint8_t *end = message.size > 0
                             ? memmem(message.bytes, message.size, arguments, sizeof(arguments) - 1)
                             : NULL;
    size_t size = end != NULL ? (size_t)(end - message.bytes) : message.size;

    size = size < store_error_text_size - 1 ? size : store_error_text_size - 1;
    for (size_t i = 0; i < size; i++) {
        uint8_t byte = message.bytes[i];
        out[i] = (char)(byte >= ' ' && byte < 0x7f ? byte : '?');
    }
    out[size] = '\0';
}

void store_error_read(struct slice message, struct store_error *out)
{
    *out = (struct store_error){.remedy = STORE_WAIT};
    for (size_t i = 0; i < ARRAY_COUNT(error_rows); i++) {
        if (slice_starts_with(message, error_rows[i].start)) {
            out->remedy = error_rows[i].remedy;
            break;
        }
    }
    if (out->remedy == STORE_MOVE && !error_read_host(message, &out->host)) {
        out->remedy = STORE_WAIT;
    }
    error_write_text(message, out->text);
}
