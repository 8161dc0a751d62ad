// SPDX-License-Identifier: Apache-2.0

#include "cluster/store_url.h"

#include "base/base.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

enum { store_port_default = 6379, sentinel_port_default = 26379 };

static enum status url_refuse(char error[store_url_error_size], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static enum status url_refuse(char error[store_url_error_size], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(error, store_url_error_size, format, args);
    va_end(args);
    return STATUS_MALFORMED;
}

// The bytes before the first `end`, which is taken away too; all of them if there is none.
static struct slice url_take(struct slice *rest, uint8_t end, bool *found)
{
    const uint8_t *at = rest->size > 0 ? memchr(rest->bytes, end, rest->size) : NULL;
    struct slice part = *rest;

    *found = at != NULL;
    if (at == NULL) {
        *rest = (struct slice){0};
        return part;
    }
    part.size = (size_t)(at - rest->bytes);
    *rest = slice_of(at + 1, rest->size - part.size - 1);
    return part;
}

static const struct {
    const char *text;
    bool is_tls;
    bool is_sentinel;
} url_schemes[] = {
    {"redis://", false, false},
    {"rediss://", true, false},
    {"redis+sentinel://", false, true},
    {"rediss+sentinel://", true, true},
};

static bool url_read_scheme(struct slice *rest, struct store_url *url)
{
    for (size_t i = 0; i < ARRAY_COUNT(url_schemes); i++) {
        if (slice_starts_with(*rest, url_schemes[i].text)) {
            size_t size = strlen(url_schemes[i].text);
            *rest = slice_of(rest->bytes + size, rest->size - size);
            url->is_tls = url_schemes[i].is_tls;
            url->is_sentinel = url_schemes[i].is_sentinel;
            return true;
        }
    }
    return false;
}

// Decodes %XX.  A NUL is refused: our strings end with one.
static bool url_decode(struct slice part, char out[store_login_size])
{
    struct text text = text_over(out, store_login_size - 1);

    for (size_t i = 0; i < part.size; i++) {
        uint8_t byte = part.bytes[i];
        if (byte == '%') {
            int high = i + 2 < part.size ? ascii_hex_value(part.bytes[i + 1]) : -1;
            int low = i + 2 < part.size ? ascii_hex_value(part.bytes[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return false;
            }
            byte = (uint8_t)(high << 4 | low);
            i += 2;
        }
        if (byte == '\0') {
            return false;
        }
        text_add(&text, slice_of(&byte, 1));
    }
    out[text.size] = '\0';
    return !text.overflow;
}

static enum status url_read_login(struct slice login, struct store_url *url,
                                  char error[store_url_error_size])
{
    bool has_colon = false;
    struct slice user = url_take(&login, ':', &has_colon);

    if (!url_decode(user, url->user)) {
        return url_refuse(error,
                          "the user is longer than %d bytes, or has a %% that is not followed "
                          "by two hexadecimal digits; write %%25 for a %%",
                          store_login_size - 1);
    }
    url->has_password = has_colon;
    if (!url_decode(login, url->password)) {
        return url_refuse(error,
                          "the password is longer than %d bytes, or has a %% that is not "
                          "followed by two hexadecimal digits; write %%25 for a %%",
                          store_login_size - 1);
    }
    if (url->has_password && url->password[0] == '\0') {
        return url_refuse(error, "the password is empty");
    }
    if (!url->has_password && url->user[0] != '\0') {
        return url_refuse(error, "user without a password; write user:password@");
    }
    return STATUS_OK;
}

static bool is_host_byte(uint8_t byte, bool is_bracketed)
{
    bool is_alnum =
        (ascii_lower(byte) >= 'a' && ascii_lower(byte) <= 'z') || (byte >= '0' && byte <= '9');
    return is_alnum || byte == '.' || (is_bracketed ? byte == ':' : byte == '-' || byte == '_');
}

// "host", "host:port", "[::1]" or "[::1]:port".
static bool url_read_host(struct slice part, uint16_t port_default, struct store_host *out)
{
    bool is_bracketed = part.size > 0 && part.bytes[0] == '[';
    bool has_end = false;
    bool has_port = false;
    uint64_t port = port_default;
    struct slice name;

    if (is_bracketed) {
        part = slice_of(part.bytes + 1, part.size - 1);
        name = url_take(&part, ']', &has_end);
        if (!has_end || (part.size > 0 && part.bytes[0] != ':')) {
            return false;
        }
        has_port = part.size > 0;
        part = has_port ? slice_of(part.bytes + 1, part.size - 1) : part;
    } else {
        name = url_take(&part, ':', &has_port);
    }
    if (has_port && (!slice_parse_u64(part, &port) || port == 0 || port > UINT16_MAX)) {
        return false;
    }
    if (name.size == 0 || name.size >= store_host_size) {
        return false;
    }
    for (size_t i = 0; i < name.size; i++) {
        if (!is_host_byte(name.bytes[i], is_bracketed)) {
            return false;
        }
    }
    memcpy(out->name, name.bytes, name.size);
    out->name[name.size] = '\0';
    out->port = (uint16_t)port;
    return true;
}

static enum status url_read_hosts(struct slice hosts, struct store_url *url,
                                  char error[store_url_error_size])
{
    uint16_t port = url->is_sentinel ? sentinel_port_default : store_port_default;
    bool has_more = true;

    while (has_more) {
        struct slice host = url_take(&hosts, ',', &has_more);
        if (url->host_count == store_host_count_max) {
            return url_refuse(error, "more than %d Sentinels", store_host_count_max);
        }
        if (!url_read_host(host, port, &url->hosts[url->host_count])) {
            return url_refuse(error,
                              "host %u: expected host or host:port, an IPv6 address in "
                              "brackets, a port from 1 to 65535",
                              url->host_count + 1);
        }
        url->host_count++;
        if (has_more && !url->is_sentinel) {
            return url_refuse(error, "more than one host needs redis+sentinel:// or "
                                     "rediss+sentinel://");
        }
    }
    return STATUS_OK;
}

static enum status url_read_path(struct slice path, struct store_url *url,
                                 char error[store_url_error_size])
{
    bool has_database = path.size > 0;
    uint64_t database = 0;

    if (url->is_sentinel) {
        struct slice master = url_take(&path, '/', &has_database);
        if (master.size == 0 || master.size >= store_master_size) {
            return url_refuse(error,
                              "the name of the master is missing, or longer than %d bytes: "
                              "redis+sentinel://host:26379/name",
                              store_master_size - 1);
        }
        for (size_t i = 0; i < master.size; i++) {
            if (master.bytes[i] <= ' ' || master.bytes[i] >= 0x7f) {
                return url_refuse(error, "the name of the master has a byte that is not printable "
                                         "ASCII");
            }
        }
        memcpy(url->master, master.bytes, master.size);
        url->master[master.size] = '\0';
        has_database = path.size > 0;
    }
    if (has_database && (!slice_parse_u64(path, &database) || database > store_database_max)) {
        return url_refuse(error, "the database is not a number from 0 to %d", store_database_max);
    }
    url->database = (uint32_t)database;
    return STATUS_OK;
}

enum status store_url_read(const char *text, struct store_url *out,
                           char error[store_url_error_size])
{
    struct slice rest = slice_str(text);
    struct store_url url = {0};
    bool found = false;
    enum status status = STATUS_OK;

    if (rest.size > store_url_size_max) {
        return url_refuse(error, "the URL has %zu bytes; the limit is %d", rest.size,
                          store_url_size_max);
    }
    if (!url_read_scheme(&rest, &url)) {
        return url_refuse(error, "expected redis://, rediss://, redis+sentinel:// or "
                                 "rediss+sentinel://");
    }
    // The last @ ends the login: many passwords have one that is not encoded, and hosts never do.
    const uint8_t *at = rest.size > 0 ? memrchr(rest.bytes, '@', rest.size) : NULL;
    if (at != NULL) {
        struct slice login = slice_of(rest.bytes, (size_t)(at - rest.bytes));
        rest = slice_of(at + 1, rest.size - login.size - 1);
        status = url_read_login(login, &url, error);
    }
    if (status == STATUS_OK) {
        struct slice hosts = url_take(&rest, '/', &found);
        status = url_read_hosts(hosts, &url, error);
    }
    if (status == STATUS_OK) {
        status = url_read_path(rest, &url, error);
    }
    if (status == STATUS_OK) {
        *out = url;
    }
    return status;
}

void store_url_name(const struct store_url *url, char out[store_name_size])
{
    static const char cut[] = "...";
    struct text text = text_over(out, store_name_size - sizeof(cut));

    text_add_format(&text, "redis%s%s://", url->is_tls ? "s" : "",
                    url->is_sentinel ? "+sentinel" : "");
    for (uint32_t i = 0; i < url->host_count; i++) {
        const struct store_host *host = &url->hosts[i];
        bool is_v6 = strchr(host->name, ':') != NULL;
        text_add_format(&text, "%s%s%s%s:%u", i > 0 ? "," : "", is_v6 ? "[" : "", host->name,
                        is_v6 ? "]" : "", host->port);
    }
    if (url->is_sentinel) {
        text_add_format(&text, "/%s", url->master);
    }
    if (url->database != 0) {
        text_add_format(&text, "/%u", url->database);
    }
    memcpy(out + text.size, text.overflow ? cut : "", text.overflow ? sizeof(cut) : 1);
}
