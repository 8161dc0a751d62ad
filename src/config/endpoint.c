// SPDX-License-Identifier: Apache-2.0

#include "config/endpoint.h"

#include "base/text.h"

#include <arpa/inet.h>

// ipc_path_size_max: the room in sockaddr_un, less the NUL.
enum { host_size_max = 253, label_size_max = 63, ipc_path_size_max = 107 };

static const char port_text[] = "a port is a number from 1 to 65535";
static const char v6_text[] = "what is in brackets must be an IPv6 address";

static struct slice slice_from(struct slice text, size_t begin)
{
    return slice_of(text.bytes + begin, text.size - begin);
}

static size_t endpoint_find(struct slice text, uint8_t byte)
{
    const uint8_t *at = text.size > 0 ? memchr(text.bytes, byte, text.size) : NULL;
    return at != NULL ? (size_t)(at - text.bytes) : text.size;
}

// `family` is AF_INET or AF_INET6.
static bool is_literal(int family, struct slice text)
{
    char host[INET6_ADDRSTRLEN];
    uint8_t address[sizeof(struct in6_addr)];

    if (text.size == 0 || text.size >= sizeof(host) ||
        memchr(text.bytes, '\0', text.size) != NULL) {
        return false;
    }
    memcpy(host, text.bytes, text.size);
    host[text.size] = '\0';
    return inet_pton(family, host, address) == 1;
}

static bool endpoint_is_v4(struct slice text)
{
    return is_literal(AF_INET, text);
}

static bool is_v6(struct slice text)
{
    return is_literal(AF_INET6, text);
}

static bool endpoint_is_label(struct slice label)
{
    if (label.size == 0 || label.size > label_size_max || label.bytes[0] == '-') {
        return false;
    }
    for (size_t i = 0; i < label.size; i++) {
        uint8_t lower = ascii_lower(label.bytes[i]);
        bool is_digit = lower >= '0' && lower <= '9';
        if (!is_digit && !(lower >= 'a' && lower <= 'z') && lower != '-' && lower != '_') {
            return false;
        }
    }
    return true;
}

// Underscores are no host names by the book, and common in container networks.
static bool is_name(struct slice host)
{
    struct slice label = {0};

    if (host.size > host_size_max) {
        return false;
    }
    struct slice rest = host;
    for (;;) {
        size_t size = endpoint_find(rest, '.');
        label = slice_of(rest.bytes, size);
        if (!endpoint_is_label(label)) {
            return false;
        }
        if (size == rest.size) {
            break;
        }
        rest = slice_from(rest, size + 1);
        if (rest.size == 0) {
            break; // a dot at the end: the name is complete
        }
    }
    // 10.0.0.300 is a mistake in an address and no name: no top-level domain is a number.
    uint64_t number;
    return !slice_parse_u64(label, &number);
}

// `text` is what follows the host: nothing, or a colon and a number.
static bool read_port(struct slice text, uint16_t *port)
{
    uint64_t number;

    if (text.size == 0) {
        *port = 0;
        return true;
    }
    if (text.bytes[0] != ':' || !slice_parse_u64(slice_from(text, 1), &number) || number == 0 ||
        number > UINT16_MAX) {
        return false;
    }
    *port = (uint16_t)number;
    return true;
}

// Splits `host:port` and `[v6]:port`; the host of the former is not looked at.
static const char *endpoint_split(struct slice text, struct config_endpoint *out)
{
    struct slice rest;

    if (text.size > 0 && text.bytes[0] == '[') {
        size_t close = endpoint_find(text, ']');
        if (close == text.size) {
            return "a bracket is not closed";
        }
        out->host = slice_of(text.bytes + 1, close - 1);
        if (!is_v6(out->host)) {
            return v6_text;
        }
        rest = slice_from(text, close + 1);
    } else {
        size_t colon = endpoint_find(text, ':');
        out->host = slice_of(text.bytes, colon);
        rest = slice_from(text, colon);
    }
    return read_port(rest, &out->port) ? NULL : port_text;
}

static const char *endpoint_check_host(struct slice url, struct slice host)
{
    if (url.bytes[0] == '[') {
        return NULL; // endpoint_split() saw to it
    }
    if (host.size == 0) {
        return "the host is missing";
    }
    if (!endpoint_is_v4(host) && !is_name(host)) {
        return "the host is neither a name nor an address (IPv6 goes in brackets)";
    }
    return NULL;
}

// A scheme, a host and perhaps a port; *path is what follows, from its slash.
static const char *split_url(struct slice url, struct config_endpoint *out, struct slice *path)
{
    struct config_endpoint parts = {0};

    if (url.size >= 7 && slice_is_nocase(slice_of(url.bytes, 7), "http://")) {
        url = slice_from(url, 7);
    } else if (url.size >= 8 && slice_is_nocase(slice_of(url.bytes, 8), "https://")) {
        url = slice_from(url, 8);
        parts.tls = true;
    } else {
        return "a URL starts with http:// or https://";
    }
    if (endpoint_find(url, '@') < url.size) {
        return "a user or password has no place in the URL; see api_key";
    }
    if (endpoint_find(url, '?') < url.size || endpoint_find(url, '#') < url.size) {
        return "a query has no place in the URL";
    }
    size_t slash = endpoint_find(url, '/');
    struct slice rest = slice_from(url, slash);
    url.size = slash;
    if (url.size == 0) {
        return "the host is missing";
    }
    const char *why = endpoint_split(url, &parts);
    why = why != NULL ? why : endpoint_check_host(url, parts.host);
    if (why != NULL) {
        return why;
    }
    if (parts.port == 0) {
        parts.port = parts.tls ? 443 : 80;
    }
    *path = rest;
    *out = parts;
    return NULL;
}

const char *config_url_split(struct slice url, struct config_endpoint *out)
{
    struct config_endpoint parts;
    struct slice path;
    const char *why = split_url(url, &parts, &path);

    if (why == NULL && path.size > 1) {
        why = "a path has no place in the URL of a backend: requests bring their own";
    }
    if (why == NULL) {
        *out = parts;
    }
    return why;
}

const char *config_collector_split(struct slice url, struct config_endpoint *out,
                                   struct slice *path)
{
    for (size_t i = 0; i < url.size; i++) {
        if (url.bytes[i] <= ' ' || url.bytes[i] > '~') {
            return "a URL is made of visible ASCII characters";
        }
    }
    return split_url(url, out, path);
}

const char *config_address_split(struct slice address, struct config_endpoint *out)
{
    struct config_endpoint parts = {0};
    const char *why = endpoint_split(address, &parts);

    if (why != NULL) {
        return why;
    }
    if (parts.port == 0) {
        return "the port is missing";
    }
    if (slice_is(parts.host, "*")) {
        parts.host.size = 0;
    }
    if (parts.host.size > 0 && address.bytes[0] != '[' && !endpoint_is_v4(parts.host)) {
        return "names are not looked up here; write the address";
    }
    *out = parts;
    return NULL;
}

const char *config_server_split(struct slice server, struct config_endpoint *out)
{
    struct config_endpoint parts = {0};

    if (is_v6(server)) {
        *out = (struct config_endpoint){.host = server};
        return NULL;
    }
    const char *why = endpoint_split(server, &parts);
    if (why != NULL) {
        return why;
    }
    if (server.size == 0 || (server.bytes[0] != '[' && !endpoint_is_v4(parts.host))) {
        return "a name server is given by its address";
    }
    *out = parts;
    return NULL;
}

const char *config_peer_split(struct slice peer, struct config_endpoint *out)
{
    static const char scheme[] = "dns+srv://";
    struct config_endpoint parts = {0};

    if (slice_starts_with(peer, scheme)) {
        parts.host = slice_from(peer, sizeof(scheme) - 1);
        if (!is_name(parts.host)) {
            return endpoint_find(parts.host, ':') < parts.host.size
                       ? "ports come from the SRV records: leave it out"
                       : "behind dns+srv:// goes the name of SRV records";
        }
        *out = parts;
        return NULL;
    }
    const char *why = endpoint_split(peer, &parts);
    why = why != NULL ? why : endpoint_check_host(peer, parts.host);
    if (why == NULL && parts.port == 0) {
        why = "the port is missing";
    }
    if (why == NULL) {
        *out = parts;
    }
    return why;
}

const char *config_socket_split(struct slice endpoint, struct config_socket *out)
{
    struct config_endpoint parts = {0};
    struct slice rest =
        slice_from(endpoint, endpoint.size < 6 ? endpoint.size : 6); // "tcp://", "ipc://"

    if (slice_starts_with(endpoint, "ipc://")) {
        if (rest.size == 0 || rest.size > ipc_path_size_max) {
            return "a path has 1 to 107 bytes";
        }
        *out = (struct config_socket){.path = rest};
        return NULL;
    }
    if (!slice_starts_with(endpoint, "tcp://")) {
        return "an endpoint starts with tcp:// or ipc://";
    }
    if (rest.size == 0) {
        return "the host is missing";
    }
    const char *why = endpoint_split(rest, &parts);
    bool is_any = slice_is(parts.host, "*");
    if (why == NULL && !is_any) {
        why = endpoint_check_host(rest, parts.host);
    }
    if (why == NULL && parts.port == 0) {
        why = "the port is missing";
    }
    if (why != NULL) {
        return why;
    }
    parts.host.size = is_any ? 0 : parts.host.size;
    *out = (struct config_socket){.host = parts.host, .port = parts.port};
    return NULL;
}

bool config_socket_write(const struct config_socket *socket, uint32_t rank, struct slice own_host,
                         struct text *out)
{
    if (socket->port == 0) {
        if (rank == 0) {
            text_add_str(out, "ipc://");
            text_add(out, socket->path);
        }
        return rank == 0;
    }
    if (rank > (uint32_t)UINT16_MAX - socket->port) {
        return false;
    }
    struct slice host = socket->host.size > 0 ? socket->host : own_host;
    bool is_bare_v6 = is_v6(host);
    text_add_str(out, is_bare_v6 ? "tcp://[" : "tcp://");
    text_add(out, host);
    text_add_str(out, is_bare_v6 ? "]:" : ":");
    text_add_u64(out, socket->port + rank);
    return true;
}
