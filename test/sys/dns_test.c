// SPDX-License-Identifier: Apache-2.0
//
// The server lives in the same loop as the resolver.  It knows a short list of records, counts the
// questions, and misbehaves on demand.

#include "sys/dns.h"

#include "base/rng.h"
#include "base/text.h"
#include "sys/loop.h"
#include "sys/tcp.h"
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    TYPE_A = 1,
    TYPE_CNAME = 5,
    TYPE_AAAA = 28,
    RCODE_SERVFAIL = 2,
    RCODE_NXDOMAIN = 3,
    RCODE_REFUSED = 5,
    message_size_max = 4096,
    connection_count_max = 4,
};

struct record {
    const char *name;
    const char *value; // an address, or the name that an alias stands for
    uint32_t ttl_s;
    uint16_t type;
};

struct message {
    uint8_t bytes[message_size_max];
    size_t size;
};

struct server;

struct connection {
    struct loop_source source;
    struct server *server;
    struct message in;
};

struct server {
    struct loop_source udp;
    struct loop_source tcp;
    struct loop *loop;
    const struct record *records;
    uint32_t record_count;
    char address[32];
    uint32_t question_count;
    uint32_t tcp_question_count;
    struct connection connections[connection_count_max];

    // How it misbehaves; zero: not at all.
    bool silent;
    bool silent_over_tcp;
    bool truncates; // says over UDP that the answer does not fit
    bool drips;     // sends TCP answers byte by byte
    bool hangs_up;  // ends TCP connections without an answer
    uint8_t rcode;  // for every question, or for those of `rcode_type`
    uint16_t rcode_type;
    bool changes_id;
    bool changes_bytes; // at random, but not the id
    struct rng rng;

    // The answer to a question of `held_type` waits until so many questions were asked.
    uint16_t held_type;
    uint32_t held_until;
    struct message held;
    struct sockaddr_in held_for;
};

static void put(struct message *message, uint64_t number, size_t size)
{
    ASSERT(message->size + size <= sizeof(message->bytes));
    for (size_t i = 0; i < size; i++) {
        message->bytes[message->size++] = (uint8_t)(number >> (8 * (size - 1 - i)));
    }
}

static uint16_t two_bytes(const uint8_t *bytes)
{
    return (uint16_t)(bytes[0] << 8 | bytes[1]);
}

static void put_name(struct message *message, const char *name)
{
    while (*name != '\0') {
        size_t size = strcspn(name, ".");
        put(message, size, 1);
        for (size_t i = 0; i < size; i++) {
            put(message, (uint8_t)name[i], 1);
        }
        name += size + (name[size] == '.');
    }
    put(message, 0, 1);
}

// The only question of a message, which is our own resolver's and thus well formed.
static size_t read_question(const struct message *message, char *name, uint16_t *type)
{
    size_t at = 12;
    size_t size = 0;
    while (message->bytes[at] != 0) {
        uint8_t label_size = message->bytes[at];
        memcpy(name + size, message->bytes + at + 1, label_size);
        size += label_size;
        name[size++] = '.';
        at += 1U + label_size;
        ASSERT(at < message->size && size < 256);
    }
    name[size > 0 ? size - 1 : 0] = '\0';
    *type = two_bytes(message->bytes + at + 1);
    return at + 5;
}

static void put_record(struct message *message, const struct record *record)
{
    put_name(message, record->name);
    put(message, record->type, 2);
    put(message, 1, 2);
    put(message, record->ttl_s, 4);
    size_t size_at = message->size;
    put(message, 0, 2);
    if (record->type == TYPE_CNAME) {
        put_name(message, record->value);
    } else {
        int family = record->type == TYPE_A ? AF_INET : AF_INET6;
        ASSERT(inet_pton(family, record->value, message->bytes + message->size) == 1);
        message->size += family == AF_INET ? 4 : 16;
    }
    size_t size = message->size - size_at - 2;
    message->bytes[size_at] = (uint8_t)(size >> 8);
    message->bytes[size_at + 1] = (uint8_t)size;
}

// Appends what is known of `name`, following aliases.  Returns the count, -1 when there is nothing
// of any type.
static int put_answers(const struct server *server, const char *name, uint16_t type,
                       struct message *out)
{
    int count = -1;
    for (uint32_t i = 0; i < server->record_count; i++) {
        const struct record *record = &server->records[i];
        if (strcasecmp(record->name, name) != 0) {
            continue;
        }
        count = count < 0 ? 0 : count;
        if (record->type == type) {
            put_record(out, record);
            count++;
        } else if (record->type == TYPE_CNAME) {
            put_record(out, record);
            int more = put_answers(server, record->value, type, out);
            count += 1 + (more > 0 ? more : 0);
        }
    }
    return count;
}

static void make_answer(struct server *server, const struct message *question, bool over_tcp,
                        struct message *out)
{
    char name[256];
    uint16_t type;
    size_t question_size = read_question(question, name, &type);
    bool truncated = server->truncates && !over_tcp;
    uint8_t rcode = server->rcode_type == 0 || server->rcode_type == type ? server->rcode : 0;

    memcpy(out->bytes, question->bytes, question_size);
    out->size = question_size;
    int count = 0;
    if (rcode == 0 && !truncated) {
        count = put_answers(server, name, type, out);
        rcode = count < 0 ? RCODE_NXDOMAIN : 0;
        count = count < 0 ? 0 : count;
    }
    out->bytes[0] ^= server->changes_id;
    out->bytes[2] = (uint8_t)(0x81 | (truncated ? 0x02 : 0)); // a response
    out->bytes[3] = (uint8_t)(0x80 | rcode);
    out->bytes[6] = (uint8_t)(count >> 8);
    out->bytes[7] = (uint8_t)count;
    for (int i = 0; server->changes_bytes && i < 3; i++) {
        uint32_t at = 2 + rng_below(&server->rng, (uint32_t)out->size - 2);
        out->bytes[at] = (uint8_t)rng_next(&server->rng);
    }
    if (server->changes_bytes && rng_below(&server->rng, 4) == 0) {
        out->size = rng_below(&server->rng, (uint32_t)out->size);
    }
}

static void send_udp(const struct server *server, const struct message *message,
                     const struct sockaddr_in *to)
{
    ssize_t size = sendto(server->udp.fd, message->bytes, message->size, 0,
                          (const struct sockaddr *)to, sizeof(*to));
    ASSERT(size == (ssize_t)message->size);
}

static void answer_udp(struct server *server, const struct message *question,
                       const struct sockaddr_in *from)
{
    char name[256];
    uint16_t type;
    struct message answer;

    server->question_count++;
    read_question(question, name, &type);
    if (!server->silent) {
        make_answer(server, question, false, &answer);
        if (server->held_type == type) {
            server->held = answer;
            server->held_for = *from;
            server->held_type = 0;
        } else {
            send_udp(server, &answer, from);
        }
    }
    if (server->held.size != 0 && server->question_count >= server->held_until) {
        send_udp(server, &server->held, &server->held_for);
        server->held.size = 0;
    }
}

static void udp_ready(struct loop_source *source, uint32_t events)
{
    struct server *server = (struct server *)source;
    struct message question;
    struct sockaddr_in from;
    (void)events;

    for (;;) {
        socklen_t from_size = sizeof(from);
        ssize_t size = recvfrom(source->fd, question.bytes, sizeof(question.bytes), 0,
                                (struct sockaddr *)&from, &from_size);
        if (size < 0) {
            return;
        }
        question.size = (size_t)size;
        answer_udp(server, &question, &from);
    }
}

static void connection_end(struct connection *connection)
{
    loop_remove(connection->server->loop, &connection->source);
    tcp_close(&connection->source.fd);
}

static void send_tcp(const struct connection *connection, const struct message *answer)
{
    struct message framed = {0};
    put(&framed, answer->size, 2);
    memcpy(framed.bytes + 2, answer->bytes, answer->size);
    framed.size += answer->size;
    // Small enough for the socket's buffer.
    size_t step = connection->server->drips ? 1 : framed.size;
    for (size_t at = 0; at < framed.size; at += step) {
        ssize_t size = write(connection->source.fd, framed.bytes + at, step);
        ASSERT(size == (ssize_t)step || errno == EPIPE || errno == ECONNRESET); // or it has gone
    }
}

static void answer_tcp(struct connection *connection)
{
    struct message *in = &connection->in;
    while (in->size >= 2 && in->size >= 2U + two_bytes(in->bytes)) {
        struct message question = {.size = two_bytes(in->bytes)};
        struct message answer;
        memcpy(question.bytes, in->bytes + 2, question.size);
        in->size -= 2 + question.size;
        memmove(in->bytes, in->bytes + 2 + question.size, in->size);
        connection->server->tcp_question_count++;
        if (!connection->server->silent_over_tcp) {
            make_answer(connection->server, &question, true, &answer);
            send_tcp(connection, &answer);
        }
    }
}

static void connection_ready(struct loop_source *source, uint32_t events)
{
    struct connection *connection = (struct connection *)source;
    struct message *in = &connection->in;
    (void)events;

    for (;;) {
        size_t size = 0;
        enum status status =
            tcp_read(source->fd, in->bytes + in->size, sizeof(in->bytes) - in->size, &size);
        if (status == STATUS_AGAIN) {
            return;
        }
        if (status != STATUS_OK || connection->server->hangs_up) {
            connection_end(connection);
            return;
        }
        in->size += size;
        answer_tcp(connection);
    }
}

static struct connection *free_connection(struct server *server)
{
    uint32_t at = 0;
    while (server->connections[at].source.magic != 0) {
        at++;
        ASSERT(at < connection_count_max); // a resolver has one at a time
    }
    return &server->connections[at];
}

static void listener_ready(struct loop_source *source, uint32_t events)
{
    struct server *server = (struct server *)((char *)source - offsetof(struct server, tcp));
    struct address peer;
    int fd = -1;
    (void)events;

    while (tcp_accept(source->fd, &fd, &peer) == STATUS_OK) {
        struct connection *connection = free_connection(server);
        *connection = (struct connection){
            .source = {.fd = fd, .ready = connection_ready},
            .server = server,
        };
        ASSERT(loop_add(server->loop, &connection->source) == STATUS_OK);
    }
}

static void server_start(struct server *server, struct loop *loop, const struct record *records,
                         uint32_t record_count)
{
    struct address address;
    *server = (struct server){.loop = loop, .records = records, .record_count = record_count};
    server->rng.state = 1;
    server->udp.ready = udp_ready;
    server->tcp.ready = listener_ready;
    ASSERT(address_parse("127.0.0.1:0", &address) == STATUS_OK);
    ASSERT(tcp_listen(&address, &server->tcp.fd) == STATUS_OK);
    ASSERT(tcp_local(server->tcp.fd, &address) == STATUS_OK);
    server->udp.fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ASSERT(bind(server->udp.fd, (const struct sockaddr *)address.bytes, address.size) == 0);
    ASSERT(loop_add(loop, &server->udp) == STATUS_OK);
    ASSERT(loop_add(loop, &server->tcp) == STATUS_OK);
    struct text text = text_over(server->address, sizeof(server->address) - 1);
    address_format(&address, &text);
    server->address[text.size] = '\0';
}

static void server_stop(struct server *server)
{
    for (uint32_t i = 0; i < connection_count_max; i++) {
        if (server->connections[i].source.magic != 0) {
            connection_end(&server->connections[i]);
        }
    }
    loop_remove(server->loop, &server->udp);
    loop_remove(server->loop, &server->tcp);
    close(server->udp.fd);
    close(server->tcp.fd);
}

// A loop, a server and a resolver that asks it.
struct scene {
    struct loop *loop;
    struct server server;
    struct dns *dns;
};

static const struct record zone[] = {
    {"several.test", "10.0.0.9", 300, TYPE_A},
    {"several.test", "10.0.0.1", 40, TYPE_A},
    {"several.test", "9.0.0.200", 300, TYPE_A},
    {"several.test", "10.0.0.1", 300, TYPE_A},
    {"several.test", "2001:db8::2", 300, TYPE_AAAA},
    {"several.test", "2001:db8::1", 50, TYPE_AAAA},
    {"four.test", "10.4.4.4", 30, TYPE_A},
    {"six.test", "2001:db8::6", 60, TYPE_AAAA},
    {"alias.test", "several.test", 7, TYPE_CNAME},
    {"empty.test", "nowhere.test", 7, TYPE_CNAME},
    {"zero.test", "10.0.0.1", 0, TYPE_A},
    {"for-ever.test", "10.0.0.1", 0x7fffffff, TYPE_A},
};

static void scene_open_with(struct scene *scene, uint32_t timeout_ms)
{
    signal(SIGPIPE, SIG_IGN);
    scene->loop = NULL;
    scene->dns = NULL;
    ASSERT(loop_create(&scene->loop) == STATUS_OK);
    server_start(&scene->server, scene->loop, zone, ARRAY_COUNT(zone));
    struct dns_options options = {
        .servers = scene->server.address, .timeout_ms = timeout_ms, .tries = 2};
    ASSERT(dns_create(scene->loop, &options, &scene->dns) == STATUS_OK);
}

// With more patience than a test has: what only a second try would bring fails.
static void scene_open(struct scene *scene)
{
    scene_open_with(scene, 60000);
}

static void scene_close(struct scene *scene)
{
    dns_destroy(&scene->dns);
    server_stop(&scene->server);
    loop_destroy(&scene->loop);
}

struct wait {
    uint32_t done_count;
    struct dns_answer answer;
};

static void note(void *owner, const struct dns_answer *answer)
{
    struct wait *wait = owner;
    wait->done_count++;
    wait->answer = *answer;
}

// Long enough for every timeout here, several times over.
static void wait_for(struct scene *scene, const uint32_t *count, uint32_t target)
{
    uint64_t end_ms = loop_now_ms(scene->loop) + 10000;
    while (*count < target && loop_now_ms(scene->loop) < end_ms) {
        loop_turn(scene->loop, 100);
    }
}

static struct dns_answer resolve(struct scene *scene, const char *host)
{
    struct wait wait = {0};
    dns_resolve(scene->dns, host, 8000, note, &wait);
    wait_for(scene, &wait.done_count, 1);
    ASSERT(wait.done_count == 1);
    return wait.answer;
}

// "10.0.0.1:8000 [::1]:8000"
static const char *addresses_text(const struct dns_answer *answer)
{
    static char string[2048];
    struct text text = text_over(string, sizeof(string) - 1);
    for (uint32_t i = 0; i < answer->address_count; i++) {
        text_add_str(&text, i > 0 ? " " : "");
        address_format(&answer->addresses[i], &text);
    }
    string[text.size] = '\0';
    return string;
}

static const char several[] =
    "9.0.0.200:8000 10.0.0.1:8000 10.0.0.9:8000 [2001:db8::1]:8000 [2001:db8::2]:8000";

TEST(addresses_come_sorted_without_duplicates_and_with_the_port)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_answer answer = resolve(&scene, "several.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_STR(addresses_text(&answer), several);
    CHECK_EQ(answer.ttl_ms, 40000);
    CHECK_EQ(scene.server.question_count, 2);
    scene_close(&scene);
}

TEST(one_family_is_enough)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_answer answer = resolve(&scene, "four.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_STR(addresses_text(&answer), "10.4.4.4:8000");
    CHECK_EQ(answer.ttl_ms, 30000);
    answer = resolve(&scene, "six.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_STR(addresses_text(&answer), "[2001:db8::6]:8000");
    CHECK_EQ(answer.ttl_ms, 60000);

    scene.server.rcode = RCODE_SERVFAIL;
    scene.server.rcode_type = TYPE_AAAA;
    answer = resolve(&scene, "several.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_STR(addresses_text(&answer), "9.0.0.200:8000 10.0.0.1:8000 10.0.0.9:8000");
    scene_close(&scene);
}

TEST(an_alias_counts_for_the_time_to_live)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_answer answer = resolve(&scene, "alias.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_STR(addresses_text(&answer), several);
    CHECK_EQ(answer.ttl_ms, 7000);
    scene_close(&scene);
}

TEST(a_time_to_live_is_never_zero_nor_longer_than_a_day)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_answer answer = resolve(&scene, "zero.test");
    CHECK_EQ(answer.ttl_ms, dns_ttl_default_ms);
    answer = resolve(&scene, "for-ever.test");
    CHECK_EQ(answer.ttl_ms, dns_ttl_max_ms);
    scene_close(&scene);
}

TEST(a_name_without_addresses_is_closed)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_answer answer = resolve(&scene, "absent.test");
    CHECK_EQ(answer.status, STATUS_CLOSED);
    CHECK_STR(answer.why, "Domain name not found");
    CHECK_EQ(answer.address_count, 0);
    answer = resolve(&scene, "empty.test");
    CHECK_EQ(answer.status, STATUS_CLOSED);
    CHECK_STR(answer.why, "DNS server returned answer with no data");
    scene_close(&scene);
}

TEST(what_cannot_be_a_name_is_closed)
{
    static char long_name[400];
    struct scene scene;
    scene_open(&scene);
    memset(long_name, 'a', sizeof(long_name) - 1);
    CHECK_EQ(resolve(&scene, long_name).status, STATUS_CLOSED);
    CHECK_EQ(resolve(&scene, "a..test").status, STATUS_CLOSED);
    CHECK_EQ(scene.server.question_count, 0);
    CHECK_EQ(resolve(&scene, "").status, STATUS_CLOSED); // the root's name, which is asked for
    scene_close(&scene);
}

TEST(a_server_that_fails_is_no_proof_of_absence)
{
    struct scene scene;
    scene_open(&scene);
    scene.server.rcode = RCODE_SERVFAIL;
    CHECK_EQ(resolve(&scene, "four.test").status, STATUS_IO);
    scene.server.rcode = RCODE_REFUSED;
    struct dns_answer answer = resolve(&scene, "four.test");
    CHECK_EQ(answer.status, STATUS_IO);
    CHECK(answer.why[0] != '\0');
    scene_close(&scene);
}

// The failure of one family comes first, the empty answer of the other last.
TEST(an_empty_family_does_not_hide_that_the_other_failed)
{
    static const uint16_t failing[] = {TYPE_A, TYPE_AAAA};
    for (int i = 0; i < 2; i++) {
        struct scene scene;
        scene_open(&scene);
        scene.server.rcode = RCODE_SERVFAIL;
        scene.server.rcode_type = failing[i];
        scene.server.held_type = failing[1 - i];
        scene.server.held_until = 3; // one question of the empty family, two tries of the other
        struct dns_answer answer = resolve(&scene, "empty.test");
        CHECK_EQ(answer.status, STATUS_IO);
        CHECK(scene.server.held_type == 0);
        scene_close(&scene);
    }
}

TEST(silence_ends_after_the_last_try)
{
    struct scene scene;
    scene_open_with(&scene, 50);
    scene.server.silent = true;
    uint64_t start_ms = loop_now_ms(scene.loop);
    struct dns_answer answer = resolve(&scene, "four.test");
    CHECK_EQ(answer.status, STATUS_IO);
    CHECK_STR(answer.why, "Timeout while contacting DNS servers");
    CHECK_EQ(scene.server.question_count, 4);         // two families, two tries
    CHECK(loop_now_ms(scene.loop) - start_ms >= 150); // 50 ms and twice that

    scene.server.silent = false;
    CHECK_EQ(resolve(&scene, "four.test").status, STATUS_OK);
    scene_close(&scene);
}

TEST(nobody_listening_is_an_error)
{
    struct scene scene;
    scene_open_with(&scene, 50);
    server_stop(&scene.server);
    struct dns_answer answer = resolve(&scene, "four.test");
    CHECK_EQ(answer.status, STATUS_IO);
    dns_destroy(&scene.dns);
    loop_destroy(&scene.loop);
}

TEST(the_second_server_is_asked_when_the_first_says_nothing)
{
    struct scene scene;
    scene_open(&scene);
    struct server second;
    server_start(&second, scene.loop, zone, ARRAY_COUNT(zone));
    scene.server.silent = true;
    char servers[80];
    snprintf(servers, sizeof(servers), "%s,%s", scene.server.address, second.address);
    dns_destroy(&scene.dns);
    struct dns_options options = {.servers = servers, .timeout_ms = 50, .tries = 1};
    CHECK_EQ(dns_create(scene.loop, &options, &scene.dns), STATUS_OK);

    struct dns_answer answer = resolve(&scene, "four.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_EQ(scene.server.question_count, 2);
    CHECK_EQ(second.question_count, 2);
    server_stop(&second);
    scene_close(&scene);
}

TEST(answers_may_change)
{
    struct scene scene;
    struct record records[] = {
        {"moving.test", "10.0.0.1", 1, TYPE_A},
        {"moving.test", "10.0.0.2", 1, TYPE_A},
    };
    scene_open(&scene);
    scene.server.records = records;
    scene.server.record_count = 1;
    struct dns_answer answer = resolve(&scene, "moving.test");
    CHECK_STR(addresses_text(&answer), "10.0.0.1:8000");
    scene.server.record_count = 2;
    answer = resolve(&scene, "moving.test");
    CHECK_STR(addresses_text(&answer), "10.0.0.1:8000 10.0.0.2:8000");
    records[0].value = "10.0.0.3";
    answer = resolve(&scene, "moving.test");
    CHECK_STR(addresses_text(&answer), "10.0.0.2:8000 10.0.0.3:8000");
    scene.server.record_count = 0;
    CHECK_EQ(resolve(&scene, "moving.test").status, STATUS_CLOSED);
    scene_close(&scene);
}

TEST(what_does_not_fit_a_datagram_comes_over_tcp)
{
    for (int drips = 0; drips < 2; drips++) {
        struct scene scene;
        scene_open(&scene);
        scene.server.truncates = true;
        scene.server.drips = drips == 1;
        struct dns_answer answer = resolve(&scene, "several.test");
        CHECK_EQ(answer.status, STATUS_OK);
        CHECK_STR(addresses_text(&answer), several);
        CHECK_EQ(scene.server.question_count, 2);
        CHECK_EQ(scene.server.tcp_question_count, 2); // asked once: no answer came too late
        scene_close(&scene);
    }
}

enum { name_count = 100 };

// Resolves many names, each with its own address, all at once or with turns between; the count of
// right answers.  The names differ because c-ares may give two open questions the same number, and
// then knows them apart by the name only.
static uint32_t resolve_many(struct scene *scene, bool all_at_once)
{
    static struct record records[name_count];
    static char names[name_count][16];
    static char values[name_count][16];
    static struct wait waits[name_count];
    uint32_t right = 0;

    memset(waits, 0, sizeof(waits));
    scene->server.records = records;
    scene->server.record_count = name_count;
    for (int i = 0; i < name_count; i++) {
        snprintf(names[i], sizeof(names[i]), "n%d.test", i);
        snprintf(values[i], sizeof(values[i]), "10.0.1.%d", i);
        records[i] = (struct record){names[i], values[i], 60, TYPE_A};
    }
    for (int i = 0; i < name_count; i++) {
        dns_resolve(scene->dns, names[i], 8000, note, &waits[i]);
        if (!all_at_once) {
            loop_turn(scene->loop, 0); // the earlier ones are under way in every possible stage
        }
    }
    for (int i = 0; i < name_count; i++) {
        char expected[32];
        snprintf(expected, sizeof(expected), "%.23s:8000", values[i]);
        wait_for(scene, &waits[i].done_count, 1);
        right +=
            waits[i].done_count == 1 && strcmp(addresses_text(&waits[i].answer), expected) == 0;
    }
    return right;
}

TEST(a_hundred_at_once_each_get_their_own_answer)
{
    for (int all_at_once = 0; all_at_once < 2; all_at_once++) {
        struct scene scene;
        scene_open(&scene);
        CHECK_EQ(resolve_many(&scene, all_at_once == 1), name_count);
        CHECK_EQ(scene.server.question_count, 2 * name_count);
        scene_close(&scene);
    }
}

TEST(many_answers_over_one_connection_all_arrive)
{
    for (int all_at_once = 0; all_at_once < 2; all_at_once++) {
        struct scene scene;
        scene_open(&scene);
        scene.server.truncates = true;
        CHECK_EQ(resolve_many(&scene, all_at_once == 1), name_count);
        CHECK_EQ(scene.server.tcp_question_count, 2 * name_count);
        scene_close(&scene);
    }
}

TEST(a_connection_that_is_already_open_is_written_to_at_once)
{
    struct scene scene;
    struct wait wait = {0};
    scene_open(&scene);
    scene.server.truncates = true;
    scene.server.silent_over_tcp = true;
    dns_resolve(scene.dns, "four.test", 8000, note, &wait);
    wait_for(&scene, &scene.server.tcp_question_count, 2);
    CHECK_EQ(scene.server.tcp_question_count, 2);
    // Nothing comes back on the connection, so no event tells that it can be written to.
    dns_resolve(scene.dns, "six.test", 8000, note, &wait);
    wait_for(&scene, &scene.server.tcp_question_count, 4);
    CHECK_EQ(scene.server.tcp_question_count, 4);
    CHECK_EQ(wait.done_count, 0);
    scene_close(&scene);
}

TEST(a_connection_that_ends_early_is_an_error)
{
    struct scene scene;
    scene_open(&scene);
    scene.server.truncates = true;
    scene.server.hangs_up = true;
    struct dns_answer answer = resolve(&scene, "several.test");
    CHECK_EQ(answer.status, STATUS_IO);
    scene_close(&scene);
}

TEST(of_too_many_addresses_the_first_in_order_are_kept)
{
    enum { record_count = 100 };
    static struct record records[record_count];
    static char values[record_count][16];
    struct scene scene;
    scene_open(&scene);
    for (int i = 0; i < record_count; i++) {
        // In an order that is neither up nor down.
        snprintf(values[i], sizeof(values[i]), "10.0.0.%d", i * 37 % record_count);
        records[i] = (struct record){"many.test", values[i], 60, TYPE_A};
    }
    scene.server.records = records;
    scene.server.record_count = record_count;
    scene.server.truncates = true;
    struct dns_answer answer = resolve(&scene, "many.test");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK_EQ(answer.address_count, dns_address_count_max);
    for (uint32_t i = 0; i < answer.address_count; i++) {
        CHECK_EQ(answer.addresses[i].bytes[7], i);
    }
    scene_close(&scene);
}

TEST(an_answer_to_another_question_is_not_believed)
{
    struct scene scene;
    scene_open_with(&scene, 50);
    scene.server.changes_id = true;
    CHECK_EQ(resolve(&scene, "four.test").status, STATUS_IO);
    scene_close(&scene);
}

// Asks a few times at once and adds up how that ended; false when something did not end.
static bool ask_burst(struct scene *scene, uint32_t seen[STATUS_IO + 1])
{
    struct wait waits[8] = {0};
    bool all_done = true;

    for (size_t i = 0; i < ARRAY_COUNT(waits); i++) {
        dns_resolve(scene->dns, "alias.test", 8000, note, &waits[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(waits); i++) {
        wait_for(scene, &waits[i].done_count, 1);
        all_done = all_done && waits[i].done_count == 1;
        seen[waits[i].answer.status]++;
    }
    return all_done;
}

TEST(garbage_ends_in_some_answer_and_never_in_a_crash)
{
    struct scene scene;
    uint32_t seen[STATUS_IO + 1] = {0};
    scene_open_with(&scene, 2);
    scene.server.changes_bytes = true;
    for (int round = 0; round < 300; round++) {
        CHECK(ask_burst(&scene, seen));
    }
    printf("# ok %u, closed %u, io %u\n", seen[STATUS_OK], seen[STATUS_CLOSED], seen[STATUS_IO]);
    CHECK(seen[STATUS_OK] > 0);
    CHECK(seen[STATUS_IO] > 0);
    scene_close(&scene);
}

TEST(the_hosts_file_is_asked_before_any_server)
{
    struct scene scene;
    scene_open(&scene);
    struct dns_answer answer = resolve(&scene, "localhost");
    CHECK_EQ(answer.status, STATUS_OK);
    CHECK(strstr(addresses_text(&answer), "127.0.0.1:8000") != NULL);
    CHECK_EQ(answer.ttl_ms, dns_ttl_default_ms);
    CHECK_EQ(scene.server.question_count, 0);
    scene_close(&scene);
}

TEST(a_literal_is_its_own_answer_at_once)
{
    struct scene scene;
    struct wait wait = {0};
    scene_open(&scene);
    dns_resolve(scene.dns, "192.0.2.1", 80, note, &wait);
    CHECK_EQ(wait.done_count, 1);
    CHECK_STR(addresses_text(&wait.answer), "192.0.2.1:80");
    CHECK_EQ(wait.answer.status, STATUS_OK);
    CHECK_EQ(wait.answer.ttl_ms, dns_ttl_max_ms);
    dns_resolve(scene.dns, "::1", 80, note, &wait);
    CHECK_STR(addresses_text(&wait.answer), "[::1]:80");
    scene_close(&scene);
}

struct chain {
    struct dns *dns;
    uint32_t done_count;
};

static void ask_again(void *owner, const struct dns_answer *answer)
{
    struct chain *chain = owner;
    chain->done_count += answer->status == STATUS_OK;
    if (chain->done_count % 3 != 0) {
        dns_resolve(chain->dns, chain->done_count % 3 == 1 ? "localhost" : "six.test", 1, ask_again,
                    chain);
    }
}

TEST(a_callback_may_ask_again)
{
    struct scene scene;
    scene_open(&scene);
    struct chain chain = {.dns = scene.dns};
    dns_resolve(scene.dns, "four.test", 1, ask_again, &chain);
    wait_for(&scene, &chain.done_count, 3);
    CHECK_EQ(chain.done_count, 3);
    scene_close(&scene);
}

TEST(destroying_drops_open_queries_without_a_word)
{
    for (int tcp = 0; tcp < 2; tcp++) {
        struct scene scene;
        struct wait wait = {0};
        scene_open(&scene);
        scene.server.silent = tcp == 0;
        scene.server.truncates = tcp == 1;
        scene.server.held_type = 0;
        for (int i = 0; i < 10; i++) {
            dns_resolve(scene.dns, "four.test", 1, note, &wait);
        }
        loop_turn(scene.loop, 0);
        CHECK_EQ(wait.done_count, 0);
        dns_destroy(&scene.dns);
        CHECK(scene.dns == NULL);
        dns_destroy(&scene.dns);
        for (int i = 0; i < 10; i++) {
            loop_turn(scene.loop, 20);
        }
        CHECK_EQ(wait.done_count, 0);
        scene_close(&scene);
    }
}

TEST(servers_that_cannot_be_read_are_refused)
{
    static const char *const bad[] = {"", "not an address", "10.0.0.1,name.example", "10.0.0.1:x"};
    struct loop *loop = NULL;
    struct dns *dns = NULL;
    CHECK_EQ(loop_create(&loop), STATUS_OK);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct dns_options options = {.servers = bad[i]};
        CHECK_EQ(dns_create(loop, &options, &dns), STATUS_MALFORMED);
        CHECK(dns == NULL);
    }
    struct dns_options options = {.servers = "10.0.0.1,[2001:db8::1]:5353,10.0.0.2:54"};
    CHECK_EQ(dns_create(loop, &options, &dns), STATUS_OK);
    dns_destroy(&dns);
    CHECK_EQ(dns_create(loop, NULL, &dns), STATUS_OK);
    dns_destroy(&dns);
    loop_destroy(&loop);
}
