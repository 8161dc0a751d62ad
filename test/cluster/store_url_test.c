// SPDX-License-Identifier: Apache-2.0

#include "cluster/store_url.h"

#include "base/base.h"
#include "test.h"

static struct store_url url;
static char error[store_url_error_size];
static char name[store_name_size];

static bool reads(const char *text)
{
    error[0] = '\0';
    url = (struct store_url){.database = 77};
    bool is_good = store_url_read(text, &url, error) == STATUS_OK;
    ASSERT(is_good == (error[0] == '\0'));
    ASSERT(is_good || url.database == 77); // untouched
    if (is_good) {
        store_url_name(&url, name);
    }
    return is_good;
}

TEST(the_shortest_url_has_the_usual_port_and_database)
{
    CHECK(reads("redis://store"));
    CHECK(!url.is_tls && !url.is_sentinel && !url.has_password);
    CHECK_EQ(url.host_count, 1);
    CHECK_STR(url.hosts[0].name, "store");
    CHECK_EQ(url.hosts[0].port, 6379);
    CHECK_EQ(url.database, 0);
    CHECK_STR(name, "redis://store:6379");
    CHECK(reads("redis://store/"));
}

TEST(every_part_is_read_and_the_login_is_not_in_the_name)
{
    CHECK(reads("rediss://us%65r:p%40ss%3a%25@10.0.0.7:7000/12"));
    CHECK(url.is_tls);
    CHECK_STR(url.user, "user");
    CHECK_STR(url.password, "p@ss:%");
    CHECK_STR(url.hosts[0].name, "10.0.0.7");
    CHECK_EQ(url.hosts[0].port, 7000);
    CHECK_EQ(url.database, 12);
    CHECK_STR(name, "rediss://10.0.0.7:7000/12");
    CHECK(reads("redis://:only@h"));
    CHECK_STR(url.user, "");
    CHECK_STR(url.password, "only");
    CHECK(reads("redis://u:with:colon@and/slash@h"));
    CHECK_STR(url.password, "with:colon@and/slash");
    CHECK_STR(url.hosts[0].name, "h");
}

TEST(ipv6_addresses_are_in_brackets)
{
    CHECK(reads("redis://[::1]"));
    CHECK_STR(url.hosts[0].name, "::1");
    CHECK_EQ(url.hosts[0].port, 6379);
    CHECK(reads("redis://a:b@[fe80::1]:1/2"));
    CHECK_STR(url.hosts[0].name, "fe80::1");
    CHECK_EQ(url.hosts[0].port, 1);
    CHECK_STR(name, "redis://[fe80::1]:1/2");
}

TEST(sentinels_are_a_list_and_name_a_master)
{
    CHECK(reads("redis+sentinel://u:p@h1,h2:1,[::1]:2/mymaster/3"));
    CHECK(url.is_sentinel && !url.is_tls);
    CHECK_EQ(url.host_count, 3);
    CHECK_EQ(url.hosts[0].port, 26379);
    CHECK_EQ(url.hosts[1].port, 1);
    CHECK_STR(url.hosts[2].name, "::1");
    CHECK_STR(url.master, "mymaster");
    CHECK_EQ(url.database, 3);
    CHECK_STR(name, "redis+sentinel://h1:26379,h2:1,[::1]:2/mymaster/3");
    CHECK(reads("rediss+sentinel://h/m"));
    CHECK(url.is_tls && url.is_sentinel && url.database == 0);
    CHECK(reads("rediss+sentinel://h/m/"));
}

TEST(other_texts_are_refused_with_a_reason)
{
    static const struct {
        const char *text;
        const char *reason;
    } rows[] = {
        {"", "expected redis://"},
        {"http://h", "expected redis://"},
        {"redis:/h", "expected redis://"},
        {"redis://", "host 1"},
        {"redis://:6379", "host 1"},
        {"redis://h:", "host 1"},
        {"redis://h:0", "host 1"},
        {"redis://h:65536", "host 1"},
        {"redis://h:+1", "host 1"},
        {"redis://h h", "host 1"},
        {"redis://::1", "host 1"},
        {"redis://[::1", "host 1"},
        {"redis://[::1]x", "host 1"},
        {"redis://[]", "host 1"},
        {"redis://h1,h2", "more than one host"},
        {"redis://h/x", "the database"},
        {"redis://h/0/1", "the database"},
        {"redis://h/65536", "the database"},
        {"redis://user@h", "user without a password"},
        {"redis://user:@h", "the password is empty"},
        {"redis://:%zz@h", "the password is longer"},
        {"redis://:%4@h", "the password is longer"},
        {"redis://:%00@h", "the password is longer"},
        {"redis://%:p@h", "the user is longer"},
        {"redis+sentinel://h", "the name of the master"},
        {"redis+sentinel://h/", "the name of the master"},
        {"redis+sentinel://h/a b", "the name of the master"},
        {"redis+sentinel://h/m/x", "the database"},
        {"redis+sentinel://h,/m", "host 2"},
        {"redis+sentinel://1,2,3,4,5,6,7,8,9/m", "more than 8"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (reads(rows[i].text) || strstr(error, rows[i].reason) == NULL) {
            test_fail(__FILE__, __LINE__, "%s: \"%s\"", rows[i].text, error);
        }
    }
}

TEST(parts_that_are_too_long_are_refused_and_no_reason_shows_the_password)
{
    char text[store_url_size_max + 64];
    memset(text, 'a', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    memcpy(text, "redis://", 8);
    CHECK(!reads(text));
    text[8 + store_host_size] = '\0';
    CHECK(!reads(text));
    text[8 + store_host_size - 1] = '\0';
    CHECK(reads(text));
    memset(text + 8, 'p', 1000);
    memcpy(text + 8, "u:", 2);
    memcpy(text + 8 + 2 + store_login_size, "@h", 3);
    CHECK(!reads(text));
    CHECK(strstr(error, "ppp") == NULL);
    memcpy(text + 8 + 2 + store_login_size - 1, "@h", 3);
    CHECK(reads(text));
    CHECK(!reads("redis://u:ppp@h/x"));
    CHECK(strstr(error, "ppp") == NULL);
}

TEST(a_name_that_does_not_fit_is_cut)
{
    char text[store_url_size_max] = "redis+sentinel://";
    for (int i = 0; i < 8; i++) {
        size_t size = strlen(text);
        memset(text + size, 'a' + i, 200);
        text[size + 200] = '\0';
        strncat(text, i < 7 ? "," : "/m", sizeof(text) - size - 300);
    }
    CHECK(reads(text));
    CHECK_EQ(url.host_count, 8);
    CHECK(strlen(name) < store_name_size);
    CHECK_STR(name + strlen(name) - 3, "...");
}
