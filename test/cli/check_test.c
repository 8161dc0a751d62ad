// SPDX-License-Identifier: Apache-2.0

#include "base/text.h"
#include "cli/child.h"
#include "config/option/command.h"
#include "net/certificates.h"
#include "net/tcp.h"
#include "test.h"

#include <fcntl.h>

static struct child child;
static char path[] = "/tmp/check_test.XXXXXX";

static int check(const char *yaml)
{
    snprintf(path, sizeof(path), "/tmp/check_test.XXXXXX");
    int fd = mkostemp(path, O_CLOEXEC);
    ASSERT(fd != -1 && write(fd, yaml, strlen(yaml)) == (ssize_t)strlen(yaml) && close(fd) == 0);
    child_start(&child, command_check, WORDS(path));
    int status = child_finish(&child);
    ASSERT(unlink(path) == 0);
    return status;
}

// "file:LINE:COLUMN: text", and nothing else.
static bool error_is_at(const char *place)
{
    char begin[128];
    const char *text = child_text(child.err);
    snprintf(begin, sizeof(begin), "%s:%s: ", path, place);
    const char *end = strchr(text, '\n');
    return strncmp(text, begin, strlen(begin)) == 0 && end != NULL && end[1] == '\0' &&
           end > text + strlen(begin);
}

TEST(a_good_file_is_counted)
{
    char expected[128];
    CHECK_EQ(check("backends: ['http://10.0.0.1', 'http://name.example:8000']\n"
                   "pools: [{name: a}, {name: b}]\n"),
             COMMAND_OK);
    snprintf(expected, sizeof(expected), "%s: 2 backends in 2 pools\n", path);
    CHECK_STR(child_text(child.out), expected);
    CHECK_STR(child_text(child.err), "");
    child_close(&child);
}

TEST(a_bad_file_is_refused_with_the_place)
{
    static const struct {
        const char *yaml;
        const char *place;
    } bad[] = {
        {"backends: ['http://10.0.0.1']\ncolour: red\n", "2:1"},
        {"backends: ['http://10.0.0.1']\nlimits:\n  body_sise: 1m\n", "3:3"},
        {"backends:\n  - 'http://10.0.0.1'\n  - localhost\n", "3:5"},
        {"backends: ['http://10.0.0.1']\nworkers: many\n", "2:10"},
        {"- a\n", "1:1"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        CHECK_EQ(check(bad[i].yaml), COMMAND_USAGE);
        CHECK(error_is_at(bad[i].place));
        CHECK_STR(child_text(child.out), "");
        child_close(&child);
    }
}

TEST(a_file_that_is_not_there_is_named)
{
    child_start(&child, command_check, WORDS("/nonexistent/warmpath.yaml"));
    CHECK_EQ(child_finish(&child), COMMAND_USAGE);
    CHECK_STR(child_text(child.err), "/nonexistent/warmpath.yaml: cannot read the configuration: "
                                     "No such file or directory\n");
    child_close(&child);
}

TEST(one_file_is_checked)
{
    const char *const *const ways[] = {WORDS(NULL), WORDS("a", "b")};
    for (size_t i = 0; i < ARRAY_COUNT(ways); i++) {
        child_start(&child, command_check, ways[i]);
        CHECK_EQ(child_finish(&child), COMMAND_USAGE);
        CHECK_STR(child_text(child.err), "warmpath check: name one configuration file\n");
        child_close(&child);
    }
}

struct files {
    const char *certificate; // NULL: no TLS for clients
    const char *key;
    const char *ca; // NULL: the system's
};

static int check_files(const struct files *files)
{
    char yaml[1024];
    struct text text = text_over(yaml, sizeof(yaml) - 1);
    text_add_str(&text, "backends: ['https://10.0.0.1']\n");
    if (files->certificate != NULL) {
        text_add_format(&text, "tls: {certificate: '%s', key: '%s'}\n",
                        file_in_dir(files->certificate), file_in_dir(files->key));
    }
    if (files->ca != NULL) {
        text_add_format(&text, "backend_tls: {ca: '%s', verify: false}\n", file_in_dir(files->ca));
    }
    yaml[text.size] = '\0';
    return check(yaml);
}

TEST(files_that_it_names_are_part_of_it)
{
    static const struct {
        struct files files;
        const char *begin;
        const char *named;
    } bad[] = {
        {{.certificate = "absent.pem", .key = "key.pem"}, "tls: ", "absent.pem"},
        {{.certificate = "leaf.pem", .key = "absent.pem"}, "tls: ", "absent.pem"},
        {{.certificate = "leaf.pem", .key = "other.pem"}, "tls: ", "other.pem"},
        {{.certificate = "nonsense.pem", .key = "key.pem"}, "tls: ", "nonsense.pem"},
        {{.ca = "absent.pem"}, "backend_tls: ", "absent.pem"},
        {{.ca = "nonsense.pem"}, "backend_tls: ", "nonsense.pem"},
        {{.certificate = "leaf.pem", .key = "key.pem", .ca = "key.pem"},
         "backend_tls: ",
         "key.pem"},
    };
    make_certificates();
    CHECK_EQ(
        check_files(&(struct files){.certificate = "leaf.pem", .key = "key.pem", .ca = "ca.pem"}),
        COMMAND_OK);
    child_close(&child);
    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        CHECK_EQ(check_files(&bad[i].files), COMMAND_USAGE);
        const char *text = child_text(child.err);
        CHECK(strncmp(text, bad[i].begin, strlen(bad[i].begin)) == 0);
        CHECK(strstr(text, file_in_dir(bad[i].named)) != NULL);
        CHECK_STR(child_text(child.out), "");
        child_close(&child);
    }
}

TEST(a_secret_that_is_missing_is_refused_with_the_place)
{
    CHECK_EQ(check("backends: ['http://10.0.0.1']\napi_key_file: /nonexistent/key\n"),
             COMMAND_USAGE);
    CHECK(error_is_at("2:15"));
    CHECK(strstr(child_text(child.err), "/nonexistent/key") != NULL);
    child_close(&child);
}

TEST(check_starts_nothing)
{
    char yaml[128];
    struct address address;
    int fd = -1;
    char space[32];
    // A second listener on this address would fail.
    ASSERT(address_parse("127.0.0.1:0", &address) == STATUS_OK);
    ASSERT(tcp_listen(&address, &fd) == STATUS_OK && tcp_local(fd, &address) == STATUS_OK);
    struct text text = text_over(space, sizeof(space) - 1);
    address_format(&address, &text);
    space[text.size] = '\0';
    snprintf(yaml, sizeof(yaml), "listen: '%s'\nbackends: ['http://%s']\n", space, space);
    CHECK_EQ(check(yaml), COMMAND_OK);
    struct address peer;
    int connection = -1;
    CHECK_EQ(tcp_accept(fd, &connection, &peer), STATUS_AGAIN); // and no backend was asked
    tcp_close(&fd);
    child_close(&child);
}
