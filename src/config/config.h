// SPDX-License-Identifier: Apache-2.0
//
// config.h -- the configuration file and the command line, checked, as one immutable struct.
//
// Every option is one row of options.def: its name in the file, its type, bounds, default and help.
// The YAML binder, the command line, `--help`, the manual page and docs/configuration.md all read
// those rows; this struct holds one field for each.  A value that is out of bounds, misspelt or
// missing is refused here, with file, line and column, so later code does not check again.
//
// Threads: immutable once created; shared by all.  Memory: one block of strings and arrays that the
// config owns; everything inside lives until config_destroy.
#pragma once

#include "base/slice.h"
#include "base/status.h"

#include <stdint.h>

struct text;

enum config_authorization {
    CONFIG_AUTHORIZATION_FORWARD, // the client's own header reaches the backend
    CONFIG_AUTHORIZATION_REPLACE, // the backend's key takes its place
    CONFIG_AUTHORIZATION_STRIP,   // the backend gets no such header
};

enum config_access_format {
    CONFIG_ACCESS_AUTO,
    CONFIG_ACCESS_JSON,
    CONFIG_ACCESS_TEXT,
};

enum config_log_level { CONFIG_LOG_ERROR, CONFIG_LOG_WARN, CONFIG_LOG_INFO, CONFIG_LOG_DEBUG };
enum config_log_format { CONFIG_LOG_TEXT, CONFIG_LOG_JSON };

// Whether the only model of the first pool takes requests for unknown models.
enum config_any_name { CONFIG_ANY_NAME_AUTO, CONFIG_ANY_NAME_ON, CONFIG_ANY_NAME_OFF };

// Whether an engine that holds a block twice says so twice.
enum config_copies { CONFIG_COPIES_COUNT, CONFIG_COPIES_SET };

enum { config_cluster_secret_min = 16 }; // characters

enum { config_dns_servers_size = 512 }; // 8 times "[IPv6]:port,", each at most 54 bytes, and a NUL

struct config_list {
    const char **items;
    uint32_t count;
};

struct config_backend {
    const char *url;  // as written: the backend's name in headers, logs and the admin API
    const char *host; // an address literal without brackets, or a DNS name
    uint16_t port;
    bool tls;
    uint32_t weight;
    uint32_t pool;             // index into config->pools
    struct config_list models; // empty: learned from the backend
    const char *api_key;       // sent when authorization is `replace`; NULL: config->api_key
    uint32_t ranks;            // data-parallel; 0 counts as 1
    // As written; config_backend_events (backend_events.h) applies the defaults.
    const char *events;        // NULL: config->events.endpoint; "none"
    const char *events_replay; // NULL: config->events.replay; "none"
    const char *events_topic;  // NULL: config->events.topic
};

struct config_pool {
    const char *name;
    const char *policy;        // a name that policy_find knows
    struct config_list models; // models that belong to this pool whatever backends say
};

// In the order of the words of the rows.
#define CONFIG_ENGINES "vllm|sglang|trtllm|plain"
enum config_engine {
    CONFIG_ENGINE_VLLM,
    CONFIG_ENGINE_SGLANG,
    CONFIG_ENGINE_TRTLLM,
    CONFIG_ENGINE_PLAIN
};
enum config_content_format {
    CONFIG_CONTENT_AUTO,
    CONFIG_CONTENT_STRING,
    CONFIG_CONTENT_OPENAI,
};

struct config_tokenizer {
    const char *path;
    struct config_list models; // empty: all
    const char *pattern;       // NULL: path is a directory; otherwise a file of ranks
    enum config_engine engine;
    const char *chat_template; // NULL: the directory's
    enum config_content_format content_format;
    const char *template_kwargs; // NULL: none
    int32_t utc_offset;          // seconds
    bool trust;
    bool forward_ids;
};

struct config {
    struct config_list listen; // address:port, [v6]:port
    uint32_t workers;          // 0: one for each core
    const char *policy;
    uint32_t load_bound_percent;
    struct config_list session_headers;

    struct config_backend *backends;
    uint32_t backend_count;
    struct config_pool *pools; // at least one
    uint32_t pool_count;
    struct config_tokenizer *tokenizers;
    uint32_t tokenizer_count;

    enum config_authorization authorization;
    const char *api_key; // NULL when not set
    bool backend_header;
    bool decision_header;
    bool ask_usage;
    bool forwarded_for;
    bool half_close;
    struct config_list blocked_paths;

    struct {
        const char *certificate; // NULL: plain text
        const char *key;
    } tls;

    struct {
        const char *ca; // NULL: the system's
        bool verify;
    } backend_tls;

    struct {
        uint64_t memory;
        uint32_t ttl;        // ms; 0: no limit
        uint32_t block_size; // bytes of text
        uint32_t block_tokens;
    } prefix;

    struct {
        uint64_t memo;
        uint64_t prompt_size;
        uint32_t certify_interval; // ms
    } tokens;

    // Of the policies that follow other routers.
    struct {
        uint32_t match_percent;
        uint32_t balance_absolute;
        uint32_t balance_percent;
        uint32_t prefill_scale;
        uint32_t temperature_percent;
    } tuning;

    struct {
        uint32_t header_size;
        uint32_t uri_size;
        uint64_t body_size;
        uint64_t body_memory; // all bodies held at one time, over all workers
        uint32_t requests;
        uint32_t connections;
        uint32_t backends; // slots for configured, resolved and added backends
    } limits;

    // All in milliseconds; 0 means no limit where the row allows it.
    struct {
        uint32_t header;
        uint32_t body;
        uint32_t keepalive;
        uint32_t connect;
        uint32_t first_byte;
        uint32_t between_chunks;
        uint32_t unread;
        uint32_t request;
        uint32_t backend_keepalive;
        uint32_t drain;
    } timeouts;

    struct {
        const char *path;
        uint32_t interval; // ms; 0: no active probes
        uint32_t timeout;  // ms
        uint32_t rise;
        uint32_t fall;
        uint32_t eject_failures; // consecutive; 0: never eject
        uint32_t eject_time;     // ms; doubles with each ejection in a row
        uint32_t eject_time_max; // ms
        uint32_t stall_time;     // ms; 0: off
    } health;

    struct {
        uint32_t attempts;
        struct config_list on; // statuses in digits
        uint32_t backoff;      // ms
        uint32_t budget_percent;
        uint32_t budget_min; // retries that are always in the budget, per 10 s and worker
    } retry;

    struct {
        bool learn;
        uint32_t interval; // ms
        enum config_any_name any_name;
    } models;

    struct {
        bool scrape;
        const char *path;
        uint32_t interval; // ms
    } load;

    // KV events; what backends do not say themselves.
    struct {
        const char *endpoint;    // NULL: no events
        const char *replay;      // NULL: none
        const char *topic;       // NULL: any
        struct config_list bind; // where engines connect to us
        uint64_t memory;
        enum config_copies copies;
        uint32_t host_weight; // percent
        uint32_t disk_weight; // percent
    } events;

    struct {
        uint32_t ttl_min;           // ms
        uint32_t ttl_max;           // ms
        struct config_list servers; // empty: the system's
    } dns;

    // Other routers.
    struct {
        const char *listen; // NULL: no mesh
        struct config_list peers;
        const char *store; // NULL: no store
        const char *store_ca;
        bool store_verify;
        const char *secret; // NULL: none
        const char *certificate;
        const char *key;
        const char *ca;
        const char *name;
        uint32_t interval; // ms
        uint64_t memory;
    } cluster;

    struct {
        const char *listen; // NULL: no admin API
        const char *token;
    } admin;

    struct {
        const char *file; // NULL: nothing is recorded
        uint32_t block_tokens;
        uint64_t size_max;
    } record;

    struct {
        bool enabled;
        const char *listen; // NULL: on the admin listener alone
    } metrics;

    struct {
        const char *file; // NULL: no log
        enum config_access_format format;
        uint32_t every;
        const char *slow_file;
        uint32_t slow_first;
        uint32_t slow_total;
    } access_log;

    struct {
        uint32_t keep;
    } decisions;

    struct {
        const char *endpoint; // NULL: no spans
        uint32_t every;
        const char *service;
    } tracing;

    struct {
        uint32_t gpu_hour_cents;
        uint32_t gpus;
        const char *currency;
    } savings;

    enum config_log_level log_level;
    enum config_log_format log_format;

    void *memory; // what config_destroy frees
};

// An error and its place.  `file` is "command line" for flags; line and column are 1-based, 0 when
// they make no sense.
struct config_error {
    char file[256];
    uint32_t line;
    uint32_t column;
    char text[512];
};

// The command line.  `values` are option name and value by turns, as `--name value`
// gave them; they win over the file.  A list option given several times is a list.
// Of a single option given several times the last counts.
//
// `read` is how files with secrets are read; NULL: from the disk.  It fills `bytes` with the whole
// file: STATUS_TOO_LARGE when that has more than `capacity`, STATUS_IO with errno otherwise.
typedef enum status config_read_fn(const char *path, void *bytes, size_t capacity, size_t *size);

struct config_source {
    const char *path; // NULL: flags alone
    const char *const *values;
    uint32_t value_count; // number of pairs
    config_read_fn *read;
};

// Checks all and starts nothing.  Of the files that options name only those with secrets
// (such as `api_key_file`) are read; certificates are not opened here.  `*out` is
// untouched on failure.  STATUS_IO: the file cannot be read; error->text says why.
enum status config_load(const struct config_source *source, struct config **out,
                        struct config_error *error);

// The same from bytes already in memory; what the fuzzer and the tests call.  `flags` may be NULL;
// its path is not looked at.
enum status config_parse(struct slice yaml, const char *file, const struct config_source *flags,
                         struct config **out, struct config_error *error);

// Clears the caller's pointer.  `*config` may be NULL.
void config_destroy(struct config **config);

// Appends "file:line:column: text", or "file: text" without a line.
void config_error_write(const struct config_error *error, struct text *out);

// Writes dns.servers with commas between them, as struct dns_options has them, and returns `space`.
// NULL: use the name servers of the system.
const char *config_dns_servers(const struct config *config, char space[config_dns_servers_size]);

// "" for a pool that a reload has removed.
static inline const char *config_pool_name(const struct config *config, uint32_t pool)
{
    return pool < config->pool_count ? config->pools[pool].name : "";
}

static inline bool config_has_cluster(const struct config *config)
{
    return config->cluster.listen != NULL || config->cluster.store != NULL;
}
