// SPDX-License-Identifier: Apache-2.0

#include "config/endpoint.h"

#include "base/text.h"
#include "test.h"

static struct config_endpoint parts;

typedef const char *split_fn(struct slice text, struct config_endpoint *out);

// "host port" or "host port tls"; what is wrong in parentheses.
static const char *split(split_fn *splitter, const char *text)
{
    static char out[512];
    const char *why = splitter(slice_str(text), &parts);

    if (why != NULL) {
        snprintf(out, sizeof(out), "(%s)", why);
    } else {
        snprintf(out, sizeof(out), "%.*s %u%s", (int)parts.host.size,
                 (const char *)parts.host.bytes, parts.port, parts.tls ? " tls" : "");
    }
    return out;
}

static const char *url(const char *text)
{
    return split(config_url_split, text);
}

static const char *address(const char *text)
{
    return split(config_address_split, text);
}

static const char *peer(const char *text)
{
    return split(config_peer_split, text);
}

static const char *server(const char *text)
{
    return split(config_server_split, text);
}

TEST(a_url_is_a_scheme_a_host_and_perhaps_a_port)
{
    CHECK_STR(url("http://10.0.0.1:8000"), "10.0.0.1 8000");
    CHECK_STR(url("https://gpu-7.internal:8443/"), "gpu-7.internal 8443 tls");
    CHECK_STR(url("http://a"), "a 80");
    CHECK_STR(url("https://a"), "a 443 tls");
    CHECK_STR(url("HTTPS://A"), "A 443 tls");
    CHECK_STR(url("http://[2001:db8::1]:9"), "2001:db8::1 9");
    CHECK_STR(url("http://[::1]"), "::1 80");
    CHECK_STR(url("http://vllm_0.svc.cluster.local."), "vllm_0.svc.cluster.local. 80");
}

TEST(a_url_with_anything_else_is_refused)
{
    static const char *const bad[] = {
        "",
        "a",
        "a:80",
        "ftp://a",
        "http:/a",
        "http://",
        "http:///",
        "http://:80",
        "http://a:",
        "http://a:0",
        "http://a:65536",
        "http://a:8o",
        "http://a:1:2",
        "http://a/v1",
        "http://a//",
        "http://a?x",
        "http://a/?x",
        "http://a#x",
        "http://u:p@a",
        "http://[::1",
        "http://[]:1",
        "http://[::1]8",
        "http://[a]",
        "http://[1.2.3.4]",
        "http://a b",
        "http://a..b",
        "http://.a",
        "http://-a",
        "http://10.0.0.300",
        "http://10.0.0",
        "http://010.0.0.1",
        "http://::1",
        "http://a%20",
        "http://a\\b",
        "http://\xc3\xa9",
        "http://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        parts.port = 7;
        if (config_url_split(slice_str(bad[i]), &parts) == NULL) {
            test_fail(__FILE__, __LINE__, "\"%s\" is accepted", bad[i]);
        }
        CHECK_EQ(parts.port, 7); // untouched
    }
}

// "host port path".
static const char *collector(const char *text)
{
    static char out[512];
    struct slice path = {0};
    const char *why = config_collector_split(slice_str(text), &parts, &path);

    if (why != NULL) {
        snprintf(out, sizeof(out), "(%s)", why);
    } else {
        snprintf(out, sizeof(out), "%.*s %u %.*s", (int)parts.host.size,
                 (const char *)parts.host.bytes, parts.port, (int)path.size,
                 (const char *)path.bytes);
    }
    return out;
}

TEST(a_collector_may_have_a_path)
{
    CHECK_STR(collector("http://a:4318"), "a 4318 ");
    CHECK_STR(collector("http://a:4318/"), "a 4318 /");
    CHECK_STR(collector("https://[::1]/otlp/v1/traces"), "::1 443 /otlp/v1/traces");
    CHECK_STR(collector("http://a/b?c"), "(a query has no place in the URL)");
    CHECK_STR(collector("http://a/b#c"), "(a query has no place in the URL)");
    CHECK_STR(collector("http://a/b c"), "(a URL is made of visible ASCII characters)");
    CHECK_STR(collector("http://a/\r\nx: y"), "(a URL is made of visible ASCII characters)");
    CHECK_STR(collector("http:///b"), "(the host is missing)");
    CHECK_STR(collector("a:4318"), "(a URL starts with http:// or https://)");
}

TEST(says_which_part_of_a_url_is_wrong)
{
    CHECK_STR(url("a:80"), "(a URL starts with http:// or https://)");
    CHECK_STR(url("http://a/v1"),
              "(a path has no place in the URL of a backend: requests bring their own)");
    CHECK_STR(url("http://u@a"), "(a user or password has no place in the URL; see api_key)");
    CHECK_STR(url("http://a:99999"), "(a port is a number from 1 to 65535)");
}

TEST(an_address_to_listen_on_is_a_number_or_all)
{
    CHECK_STR(address("127.0.0.1:8080"), "127.0.0.1 8080");
    CHECK_STR(address("[::]:80"), ":: 80");
    CHECK_STR(address(":8080"), " 8080");
    CHECK_STR(address("*:8080"), " 8080");
    CHECK_STR(address("localhost:80"), "(names are not looked up here; write the address)");
    CHECK_STR(address("127.0.0.1"), "(the port is missing)");
    CHECK_STR(address("8080"), "(the port is missing)");
    CHECK_STR(address("[::1]"), "(the port is missing)");
    CHECK_STR(address(""), "(the port is missing)");
    CHECK_STR(address(":"), "(a port is a number from 1 to 65535)");
    CHECK_STR(address("::1:80"), "(a port is a number from 1 to 65535)");
    CHECK_STR(address("256.0.0.1:80"), "(names are not looked up here; write the address)");
    CHECK_STR(address("[::1:80"), "(a bracket is not closed)");
}

TEST(a_name_server_may_leave_the_port_out)
{
    CHECK_STR(server("10.0.0.2"), "10.0.0.2 0");
    CHECK_STR(server("10.0.0.2:5353"), "10.0.0.2 5353");
    CHECK_STR(server("::1"), "::1 0");
    CHECK_STR(server("[::1]:53"), "::1 53");
    CHECK_STR(server("[::1]"), "::1 0");
    CHECK_STR(server("dns"), "(a name server is given by its address)");
    CHECK_STR(server(""), "(a name server is given by its address)");
    CHECK_STR(server(":53"), "(a name server is given by its address)");
}

TEST(a_peer_is_a_host_and_a_port_or_the_name_of_srv_records)
{
    CHECK_STR(peer("10.0.0.1:7946"), "10.0.0.1 7946");
    CHECK_STR(peer("[::1]:1"), "::1 1");
    CHECK_STR(peer("router-1.example.com:65535"), "router-1.example.com 65535");
    CHECK_STR(peer("warmpath_a:7946"), "warmpath_a 7946");
    CHECK_STR(peer("dns+srv://_warmpath._tcp.example.com"), "_warmpath._tcp.example.com 0");
    CHECK_STR(peer("dns+srv://routers.service.consul."), "routers.service.consul. 0");
}

TEST(a_peer_with_anything_else_is_refused)
{
    static const char *const bad_ports[] = {"a:0", "a:65536", "a:", "a:1x", "::1:80", "a:1:2"};
    static const char *const bad_hosts[] = {"*:1", "a b:1", "a/b:1", "-a:1", "10.0.0.300:1"};
    static const char *const bad_services[] = {"",         "a b", "a/", "_a._tcp..test",
                                               "10.0.0.1", "[::1"};
    for (size_t i = 0; i < ARRAY_COUNT(bad_ports); i++) {
        CHECK_STR(peer(bad_ports[i]), "(a port is a number from 1 to 65535)");
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad_hosts); i++) {
        CHECK_STR(peer(bad_hosts[i]),
                  "(the host is neither a name nor an address (IPv6 goes in brackets))");
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad_services); i++) {
        char text[64];
        snprintf(text, sizeof(text), "dns+srv://%s", bad_services[i]);
        bool has_colon = strchr(bad_services[i], ':') != NULL;
        CHECK_STR(peer(text), has_colon ? "(ports come from the SRV records: leave it out)"
                                        : "(behind dns+srv:// goes the name of SRV records)");
    }
    CHECK_STR(peer("dns+srv://a:80"), "(ports come from the SRV records: leave it out)");
    CHECK_STR(peer("10.0.0.1"), "(the port is missing)");
    CHECK_STR(peer("[::1]"), "(the port is missing)");
    CHECK_STR(peer(""), "(the host is missing)");
    CHECK_STR(peer(":7946"), "(the host is missing)");
    CHECK_STR(peer("[a]:80"), "(what is in brackets must be an IPv6 address)");
    CHECK_STR(peer("http://a:80"), "(a port is a number from 1 to 65535)");
}

TEST(reads_ipv6_as_the_standard_writes_it)
{
    static const char *const good[] = {
        "::",
        "::1",
        "1::",
        "1:2:3:4:5:6:7:8",
        "1::8",
        "1:2:3:4:5:6:7::",
        "::2:3:4:5:6:7:8",
        "fe80::ABCD",
        "::ffff:10.0.0.1",
        "1:2:3:4:5:6:10.0.0.1",
    };
    static const char *const bad[] = {
        ":",
        ":::",
        "1",
        "1:2",
        "1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:9",
        "1::2::3",
        "12345::",
        "g::",
        "::1:",
        ":1::",
        "1:2:3:4:5:6:7:10.0.0.1",
        "::10.0.0.256",
        "::1%eth0",
        "1:2:3:4::5:6:7:8",
    };
    for (size_t i = 0; i < ARRAY_COUNT(good); i++) {
        CHECK_STR(config_server_split(slice_str(good[i]), &parts) == NULL ? good[i] : "refused",
                  good[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        CHECK_STR(config_server_split(slice_str(bad[i]), &parts) != NULL ? bad[i] : "accepted",
                  bad[i]);
    }
}

// "host port" of tcp, "path" of ipc; what is wrong in parentheses.
static const char *socket_of(const char *text)
{
    static char out[512];
    struct config_socket socket;
    const char *why = config_socket_split(slice_str(text), &socket);

    if (why != NULL) {
        snprintf(out, sizeof(out), "(%s)", why);
    } else if (socket.port == 0) {
        snprintf(out, sizeof(out), "%.*s", (int)socket.path.size, (const char *)socket.path.bytes);
    } else {
        snprintf(out, sizeof(out), "%.*s %u", (int)socket.host.size,
                 (const char *)socket.host.bytes, socket.port);
    }
    return out;
}

TEST(a_socket_is_a_host_and_a_port_or_a_path)
{
    CHECK_STR(socket_of("tcp://10.0.0.1:5557"), "10.0.0.1 5557");
    CHECK_STR(socket_of("tcp://gpu-7.internal:1"), "gpu-7.internal 1");
    CHECK_STR(socket_of("tcp://[2001:db8::1]:9"), "2001:db8::1 9");
    CHECK_STR(socket_of("tcp://*:5557"), " 5557");
    CHECK_STR(socket_of("ipc:///run/kv.sock"), "/run/kv.sock");
    CHECK_STR(socket_of("ipc://@kv"), "@kv");
}

TEST(a_socket_with_anything_else_is_refused)
{
    CHECK_STR(socket_of(""), "(an endpoint starts with tcp:// or ipc://)");
    CHECK_STR(socket_of("tcp:/"), "(an endpoint starts with tcp:// or ipc://)");
    CHECK_STR(socket_of("TCP://a:1"), "(an endpoint starts with tcp:// or ipc://)");
    CHECK_STR(socket_of("inproc://a"), "(an endpoint starts with tcp:// or ipc://)");
    CHECK_STR(socket_of("tcp://"), "(the host is missing)");
    CHECK_STR(socket_of("tcp://:1"), "(the host is missing)");
    CHECK_STR(socket_of("tcp://a"), "(the port is missing)");
    CHECK_STR(socket_of("tcp://[::1]"), "(the port is missing)");
    CHECK_STR(socket_of("tcp://*"), "(the port is missing)");
    CHECK_STR(socket_of("tcp://*:0"), "(a port is a number from 1 to 65535)");
    CHECK_STR(socket_of("tcp://*:*"), "(a port is a number from 1 to 65535)");
    CHECK_STR(socket_of("tcp://a:1/"), "(a port is a number from 1 to 65535)");
    CHECK_STR(socket_of("tcp://::1:1"), "(a port is a number from 1 to 65535)");
    CHECK_STR(socket_of("tcp://a b:1"),
              "(the host is neither a name nor an address (IPv6 goes in brackets))");
    CHECK_STR(socket_of("ipc://"), "(a path has 1 to 107 bytes)");
}

static const char *socket_for(const char *text, uint32_t rank, const char *own_host)
{
    static char out[512];
    struct text written = text_over(out, sizeof(out) - 1);
    struct config_socket socket;

    const char *wrong = config_socket_split(slice_str(text), &socket);
    ASSERT(wrong == NULL);
    bool done = config_socket_write(&socket, rank, slice_str(own_host), &written);
    ASSERT(done || written.size == 0);
    out[written.size] = '\0';
    return done ? out : "nowhere";
}

TEST(a_rank_has_the_port_that_many_after_the_first)
{
    CHECK_STR(socket_for("tcp://a:5557", 0, "b"), "tcp://a:5557");
    CHECK_STR(socket_for("tcp://a:5557", 3, "b"), "tcp://a:5560");
    CHECK_STR(socket_for("tcp://a:65534", 1, "b"), "tcp://a:65535");
    CHECK_STR(socket_for("tcp://a:65534", 2, "b"), "nowhere");
    CHECK_STR(socket_for("ipc:///kv", 0, "b"), "ipc:///kv");
    CHECK_STR(socket_for("ipc:///kv", 1, "b"), "nowhere");
}

TEST(a_star_is_the_host_itself)
{
    CHECK_STR(socket_for("tcp://*:5557", 1, "10.0.0.7"), "tcp://10.0.0.7:5558");
    CHECK_STR(socket_for("tcp://*:5557", 0, "2001:db8::7"), "tcp://[2001:db8::7]:5557");
    CHECK_STR(socket_for("tcp://[::1]:5557", 1, "10.0.0.7"), "tcp://[::1]:5558");
}
