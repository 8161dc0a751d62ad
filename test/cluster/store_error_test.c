// SPDX-License-Identifier: Apache-2.0

#include "cluster/store_error.h"

#include "base/base.h"
#include "test.h"

static struct store_error read_error(const char *text)
{
    struct store_error error;
    store_error_read(slice_str(text), &error);
    return error;
}

TEST(each_error_has_its_remedy)
{
    static const struct {
        const char *text;
        enum store_remedy remedy;
    } rows[] = {
        {"OOM command not allowed when used memory > 'maxmemory'.", STORE_WAIT},
        {"LOADING Redis is loading the dataset in memory", STORE_WAIT},
        {"BUSY Redis is busy running a script.", STORE_WAIT},
        {"CLUSTERDOWN Hash slot not served", STORE_WAIT},
        {"TRYAGAIN Multiple keys request during rehashing of slot", STORE_WAIT},
        {"MISCONF Redis is configured to save RDB snapshots", STORE_WAIT},
        {"ASK 3999 127.0.0.1:6381", STORE_WAIT},
        {"", STORE_WAIT},
        {"NOPERMISSION", STORE_WAIT},
        {"READONLY You can't write against a read only replica.", STORE_RELOCATE},
        {"MASTERDOWN Link with MASTER is down", STORE_RELOCATE},
        {"UNBLOCKED force unblock from blocking operation", STORE_RELOCATE},
        {"NOAUTH Authentication required.", STORE_REFUSED},
        {"WRONGPASS invalid username-password pair", STORE_REFUSED},
        {"NOPERM this user has no permissions", STORE_REFUSED},
        {"ERR invalid password", STORE_REFUSED},
        {"ERR Client sent AUTH, but no password is set", STORE_REFUSED},
        {"ERR AUTH <password> called without any password configured", STORE_REFUSED},
        {"ERR DB index is out of range", STORE_REFUSED},
        {"ERR unknown command `HELLO`", STORE_UNKNOWN_COMMAND},
        {"NOPROTO unsupported protocol version", STORE_UNKNOWN_COMMAND},
        {"WRONGTYPE Operation against a key", STORE_CLEAR},
        {"ERR The ID specified in XADD is equal or smaller", STORE_CLEAR},
        {"ERR The stream has exhausted the last possible ID", STORE_CLEAR},
    };
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        if (read_error(rows[i].text).remedy != rows[i].remedy) {
            test_fail(__FILE__, __LINE__, "%s", rows[i].text);
        }
    }
}

TEST(a_moved_error_names_the_host)
{
    struct store_error error = read_error("MOVED 3999 10.0.0.7:6381");
    CHECK_EQ(error.remedy, STORE_MOVE);
    CHECK_STR(error.host.name, "10.0.0.7");
    CHECK_EQ(error.host.port, 6381);
    error = read_error("MOVED 3999 2001:db8::7:6381");
    CHECK_STR(error.host.name, "2001:db8::7");
    error = read_error("MOVED 3999 :6381");
    CHECK_EQ(error.remedy, STORE_MOVE);
    CHECK_STR(error.host.name, "");
    static const char *const others[] = {
        "MOVED ",     "MOVED 3999",    "MOVED a:b c",  "MOVED 1 h:0", "MOVED 1 h:70000",
        "MOVED 1 h:", "MOVED 1 h:x y", "MOVED 1 h:-1", "MOVED :"};
    for (size_t i = 0; i < ARRAY_COUNT(others); i++) {
        CHECK_EQ(read_error(others[i]).remedy, STORE_WAIT);
    }
}

TEST(the_text_is_printable_and_short_and_has_no_arguments)
{
    CHECK_STR(read_error("OOM a\r\nb\x01\xff").text, "OOM a??b??");
    CHECK_STR(read_error("ERR unknown command 'AUTH', with args beginning with: 'pw'").text,
              "ERR unknown command 'AUTH'");
    char text[1000];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    CHECK_EQ(strlen(read_error(text).text), store_error_text_size - 1);
}
