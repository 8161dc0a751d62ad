// SPDX-License-Identifier: Apache-2.0

#include "admin/backend_body.h"

#include "test.h"

static const char config_text[] =
    "backends: ['http://10.9.9.9']\npools: [{name: one}, {name: two}]\n";

static struct config *config;
static struct backend_body body;
static char reason[512];

static bool read_body(const char *json)
{
    struct config_error error;
    struct text why = text_over(reason, sizeof(reason) - 1);

    ASSERT(config_parse(slice_str(config_text), "test", NULL, &config, &error) == STATUS_OK);
    bool is_good = backend_body_read(config, slice_str(json), &body, &why);
    reason[why.size] = '\0';
    return is_good;
}

static void free_body(void)
{
    backend_body_free(&body);
    config_destroy(&config);
}

TEST(every_field_is_read_and_defaults_are_those_of_a_plain_url)
{
    CHECK(read_body("{\"url\":\"http://10.0.0.7:8000\"}"));
    CHECK_STR(body.spec.url, "http://10.0.0.7:8000");
    CHECK_STR(body.spec.host, "10.0.0.7");
    CHECK_EQ(body.spec.port, 8000);
    CHECK_EQ(body.spec.weight, 1);
    CHECK_EQ(body.spec.ranks, 1);
    free_body();
    CHECK(read_body(
        "{\"url\":\"https:\\/\\/h\",\"weight\":3.0,\"pool\":\"two\",\"models\":[\"a\",\"\\u0062\"],"
        "\"api_key\":\"k\",\"ranks\":2,\"events\":\"tcp://*:5557\",\"events_topic\":7}"));
    CHECK_STR(body.spec.url, "https://h");
    CHECK(body.spec.tls);
    CHECK_EQ(body.spec.weight, 3);
    CHECK_EQ(body.spec.pool, 1);
    CHECK_EQ(body.spec.models.count, 2);
    CHECK_STR(body.spec.models.items[1], "b");
    CHECK_STR(body.spec.api_key, "k");
    CHECK_EQ(body.spec.ranks, 2);
    CHECK_STR(body.spec.events_topic, "7");
    free_body();
}

static const char no_object[] = "it is not a JSON object";
static const char bad_weight[] = "weight must be a whole number from 1 to 256";
static const char bad_models[] = "models must be a list of at most 256 names";
static const char bad_key[] = "api_key must be visible ASCII characters without spaces";

struct body_refusal {
    const char *body;
    const char *reason;
};

static const struct body_refusal refusals[] = {
    {"", no_object},
    {"null", no_object},
    {"[]", no_object},
    {"\"http://10.0.0.1\"", no_object},
    {"{\"url\":\"http://10.0.0.1\"", no_object},
    {"{\"url\":\"http://10.0.0.1\"}}", no_object},
    {"{\"url\":\"http://10.0.0.1\"} {}", no_object},
    {"{url:1}", no_object},
    {"{}", "url is missing"},
    {"{\"weight\":1}", "url is missing"},
    {"{\"url\":7}", "url is missing or not a string"},
    {"{\"url\":null}", "url is missing or not a string"},
    {"{\"url\":\"\"}", "a URL starts with http:// or https://"},
    {"{\"url\":\"10.0.0.1:80\"}", "a URL starts with http:// or https://"},
    {"{\"url\":\"ftp://10.0.0.1\"}", "a URL starts with http:// or https://"},
    {"{\"url\":\"http://\"}", "the host is missing"},
    {"{\"url\":\"http://10.0.0.1/v1\"}",
     "a path has no place in the URL of a backend: requests bring their own"},
    {"{\"url\":\"http://a b\"}",
     "the host is neither a name nor an address (IPv6 goes in brackets)"},
    {"{\"url\":\"http://a\\r\\nx\"}",
     "the host is neither a name nor an address (IPv6 goes in brackets)"},
    {"{\"url\":\"http://10.0.0.1\",\"weight\":0}", bad_weight},
    {"{\"url\":\"http://10.0.0.1\",\"weight\":257}", bad_weight},
    {"{\"url\":\"http://10.0.0.1\",\"weight\":1.5}", bad_weight},
    {"{\"url\":\"http://10.0.0.1\",\"weight\":-1}", bad_weight},
    {"{\"url\":\"http://10.0.0.1\",\"weight\":1e300}", bad_weight},
    {"{\"url\":\"http://10.0.0.1\",\"weight\":\"2\"}", bad_weight},
    {"{\"url\":\"http://10.0.0.1\",\"pool\":\"nowhere\"}", "unknown pool"},
    {"{\"url\":\"http://10.0.0.1\",\"pool\":0}", "unknown pool"},
    {"{\"url\":\"http://10.0.0.1\",\"models\":\"m\"}", bad_models},
    {"{\"url\":\"http://10.0.0.1\",\"models\":[\"m\",1]}", bad_models},
    {"{\"url\":\"http://10.0.0.1\",\"models\":[\"\"]}", bad_models},
    {"{\"url\":\"http://10.0.0.1\",\"models\":{\"a\":\"b\"}}", bad_models},
    {"{\"url\":\"http://10.0.0.1\",\"api_key\":5}", bad_key},
    {"{\"url\":\"http://10.0.0.1\",\"api_key\":\"\"}", bad_key},
    {"{\"url\":\"http://10.0.0.1\",\"api_key\":\"k\\r\\nhost: x\"}", bad_key},
    {"{\"url\":\"http://10.0.0.1\",\"ranks\":0}", "ranks: 0 is too small, the least is 1"},
    {"{\"url\":\"http://10.0.0.1\",\"ranks\":65}", "ranks: 65 is too large, the most is 64"},
    {"{\"url\":\"http://10.0.0.1\",\"ranks\":1.5}",
     "ranks: \"1.5\" is not a number: write a whole number in digits, from 1 to 64"},
    {"{\"url\":\"http://10.0.0.1\",\"ranks\":[2]}", "ranks: takes one value"},
    {"{\"url\":\"http://10.0.0.1\",\"events\":\"5557\"}",
     "events: \"5557\": an endpoint starts with tcp:// or ipc://"},
    {"{\"url\":\"http://10.0.0.1\",\"events\":\"ipc:///x\",\"ranks\":2}",
     "events: ipc:// has no ports, and 2 ranks need one each: use tcp://"},
    {"{\"url\":\"http://10.0.0.1\",\"colour\":\"red\"}", "colour"},
    {"{\"URL\":\"http://10.0.0.1\"}", "URL"},
};

TEST(a_body_that_makes_no_sense_is_refused_with_the_reason)
{
    for (size_t i = 0; i < ARRAY_COUNT(refusals); i++) {
        CHECK(!read_body(refusals[i].body));
        CHECK_STR(reason, refusals[i].reason);
        free_body();
    }
}

TEST(a_string_that_c_would_cut_is_refused)
{
    CHECK(!read_body("{\"url\":\"http://10.0.0.1\\u0000x\"}"));
    CHECK_STR(reason, "url is missing or not a string");
    free_body();
}

TEST(a_weight_or_a_url_stands_alone_in_its_body)
{
    struct text why = text_over(reason, sizeof(reason));
    char url[backend_body_url_size];
    uint32_t weight = 0;

    CHECK(backend_body_read_weight(slice_str("{\"weight\":256}"), &weight, &why));
    CHECK_EQ(weight, 256);
    CHECK(!backend_body_read_weight(slice_str("{\"weight\":257}"), &weight, &why));
    CHECK(backend_body_read_url(slice_str("{\"url\":\"http://a\"}"), url, &why));
    CHECK_STR(url, "http://a");
    CHECK(!backend_body_read_url(slice_str("{\"url\":\"http://a\",\"b\":1}"), url, &why));
    CHECK(!backend_body_read_url(slice_str("{\"url\":1}"), url, &why));
    CHECK(!backend_body_read_url(slice_str("{}"), url, &why));
}
