// SPDX-License-Identifier: Apache-2.0

#include "config/yaml_tree.h"

#include "config/config.h"
#include "config/config_memory.h"
#include "test.h"

static uint8_t space[1 << 16];
static struct config_error error;

// Writes a tree as one line: maps in braces, lists in brackets, text as line:column"text".
static void show(const struct config_node *node, char *out, size_t size)
{
    size_t used = strlen(out);
    if (node->kind == CONFIG_NODE_TEXT) {
        snprintf(out + used, size - used, "%u:%u%s", node->line, node->column,
                 node->is_blank ? "-" : "\"");
        used = strlen(out);
        snprintf(out + used, size - used, "%s%s", node->text, node->is_blank ? "" : "\"");
        return;
    }
    bool is_map = node->kind == CONFIG_NODE_MAP;
    snprintf(out + used, size - used, "%u:%u%s", node->line, node->column, is_map ? "{" : "[");
    uint32_t count = 0;
    for (const struct config_node *item = node->first; item != NULL; item = item->next) {
        strncat(out, count++ > 0 ? ", " : "", size - strlen(out) - 1);
        show(item, out, size);
        if (is_map) {
            strncat(out, ": ", size - strlen(out) - 1);
            show(item->value, out, size);
        }
    }
    ASSERT(count == node->count);
    strncat(out, is_map ? "}" : "]", size - strlen(out) - 1);
}

static const char *read_bytes(struct slice yaml, size_t capacity)
{
    static char out[2048];
    struct config_memory memory = {.bytes = space, .capacity = capacity};
    struct config_node *root = NULL;

    memset(space, 0, sizeof(space));
    out[0] = '\0';
    enum status status = config_yaml_read(yaml, &memory, &root, &error);
    if (status != STATUS_OK) {
        ASSERT(root == NULL);
        snprintf(out, sizeof(out), "%s%u:%u: %s", status == STATUS_TOO_LARGE ? "large " : "",
                 error.line, error.column, error.text);
    } else if (root != NULL) {
        show(root, out, sizeof(out));
    }
    return out;
}

static const char *read(const char *yaml)
{
    return read_bytes(slice_str(yaml), sizeof(space));
}

TEST(every_node_knows_its_line_and_column)
{
    CHECK_STR(read("a: 1\nb:\n  - x\n  - y: \"z\"\n"),
              "1:1{1:1\"a\": 1:4\"1\", 2:1\"b\": 3:3[3:5\"x\", 4:5{4:5\"y\": 4:8\"z\"}]}");
    CHECK_STR(read("---\n{a: [b, c]}\n"), "2:1{2:2\"a\": 2:5[2:6\"b\", 2:9\"c\"]}");
    CHECK_STR(read("\xc3\xa9: \xc3\xa9 # columns are characters\n"),
              "1:1{1:1\"\xc3\xa9\": 1:4\"\xc3\xa9\"}");
}

TEST(a_blank_value_differs_from_an_empty_text)
{
    CHECK_STR(read("a:\nb: ''\n"), "1:1{1:1\"a\": 1:3-, 2:1\"b\": 2:4\"\"}");
}

TEST(a_file_without_content_has_no_root)
{
    CHECK_STR(read(""), "");
    CHECK_STR(read("# nothing\n"), "");
    CHECK_STR(read("---\n...\n"), "");
    CHECK_STR(read("\xef\xbb\xbf"), "");
}

TEST(keys_may_repeat_here)
{
    CHECK_STR(read("a: 1\na: 2\n"), "1:1{1:1\"a\": 1:4\"1\", 2:1\"a\": 2:4\"2\"}");
}

TEST(refuses_anchors_aliases_and_tags_where_they_stand)
{
    CHECK_STR(read("a: &x 1\n"), "1:4: anchors are not accepted");
    CHECK_STR(read("a:\n  &x [1]\n"), "2:3: anchors are not accepted");
    CHECK_STR(read("&x {a: 1}\n"), "1:1: anchors are not accepted");
    CHECK_STR(read("a: 1\nb: *x\n"),
              "2:4: aliases are not accepted; put a text that starts with * in quotes");
    CHECK_STR(read("a: *:80\n"),
              "1:4: aliases are not accepted; put a text that starts with * in quotes");
    CHECK_STR(read("a: &&\n"),
              "1:4: anchors are not accepted; put a text that starts with & in quotes");
    CHECK_STR(read("a: !!str 1\n"), "1:4: tags are not accepted");
    CHECK_STR(read("a: ! 1\n"), "1:4: tags are not accepted");
    CHECK_STR(read("a: !x [1]\n"), "1:4: tags are not accepted");
    CHECK_STR(read("a: !x {b: 1}\n"), "1:4: tags are not accepted");
}

TEST(refuses_a_second_document)
{
    CHECK_STR(read("a: 1\n---\nb: 2\n"), "2:1: a second document; a file holds one");
    CHECK_STR(read("---\n---\n"), "2:1: a second document; a file holds one");
}

TEST(refuses_keys_other_than_text)
{
    CHECK_STR(read("[a]: 1\n"), "1:1: a key must be text");
    CHECK_STR(read("? {a: b}\n: 1\n"), "1:3: a key must be text");
}

TEST(sixteen_levels_pass_and_the_seventeenth_is_refused)
{
    CHECK_STR(read("[[[[[[[[[[[[[[[[a]]]]]]]]]]]]]]]]"),
              "1:1[1:2[1:3[1:4[1:5[1:6[1:7[1:8[1:9[1:10[1:11[1:12[1:13[1:14[1:15[1:16["
              "1:17\"a\"]]]]]]]]]]]]]]]]");
    CHECK_STR(read("[[[[[[[[[[[[[[[[[a]]]]]]]]]]]]]]]]]"), "1:17: nested more than 16 deep");
}

TEST(twenty_thousand_brackets_are_refused_at_once)
{
    static uint8_t brackets[20000];
    memset(brackets, '[', sizeof(brackets));
    CHECK_STR(read_bytes(slice_of(brackets, sizeof(brackets)), sizeof(space)),
              "1:17: nested more than 16 deep");
}

TEST(points_at_the_first_character_that_is_not_yaml)
{
    CHECK_STR(read("a: [1\n"), "2:1: not YAML: did not find expected ',' or ']' while parsing a "
                               "flow sequence");
    CHECK_STR(read("a: 1\n b: 2\n"), "2:3: not YAML: mapping values are not allowed in this "
                                     "context");
    CHECK_STR(read("a: \"x\n"), "2:1: not YAML: found unexpected end of stream while scanning a "
                                "quoted scalar");
    CHECK_STR(read("\ta: 1\n"), "1:1: not YAML: found character that cannot start any token while "
                                "scanning for the next token");
}

TEST(points_at_bytes_that_are_not_utf8)
{
    CHECK_STR(read("a: 1\n\xc3\xa9: \xff\n"),
              "2:4: not a text file in UTF-8: invalid leading UTF-8 octet");
    CHECK_STR(read("a: \x01\n"), "1:4: not a text file in UTF-8: control characters are not "
                                 "allowed");
    // A byte order mark does not switch the encoding.
    CHECK_STR(read_bytes(slice_of("\xff\xfe"
                                  "a\0",
                                  4),
                         sizeof(space)),
              "1:1: not a text file in UTF-8: invalid leading UTF-8 octet");
}

TEST(refuses_a_nul_that_would_cut_a_text_short)
{
    CHECK_STR(read("a: \"x\\0y\"\n"), "1:4: a text must not hold the character NUL");
}

TEST(ends_cleanly_wherever_the_memory_ends)
{
    const char *yaml = "a: [b, {c: d}]\n";
    bool fitted = false;
    for (size_t capacity = 0; capacity < 1024; capacity += 16) {
        const char *got = read_bytes(slice_str(yaml), capacity);
        fitted = got[0] != 'l';
        CHECK(fitted || strstr(got, "the configuration holds too many values") != NULL);
    }
    CHECK(fitted);
}
