// SPDX-License-Identifier: Apache-2.0

#include "base/text.h"
#include "cli/child.h"
#include "config/option/command.h"
#include "json/json.h"
#include "test.h"

#include <fcntl.h>

static struct child child;

// The line is cut at blanks.
static int sim(const char *line)
{
    static char space[1024];
    const char *words[child_words_max + 1] = {0};
    int count = 0;
    ASSERT(strlen(line) < sizeof(space));
    memcpy(space, line, strlen(line) + 1);
    for (char *rest = space; rest != NULL && count < child_words_max;) {
        words[count++] = strsep(&rest, " ");
    }
    child_start(&child, command_sim, words);
    return child_finish(&child);
}

static int count_of(const char *text, const char *word)
{
    int count = 0;
    for (; (text = strstr(text, word)) != NULL; text++) {
        count++;
    }
    return count;
}

static bool said(const char *word)
{
    return strstr(child_text(child.err), word) != NULL;
}

struct page {
    char path[32];
    char text[1 << 18];
};

static void page_begin(struct page *page)
{
    snprintf(page->path, sizeof(page->path), "/tmp/sim_test.XXXXXX");
    int fd = mkostemp(page->path, O_CLOEXEC);
    ASSERT(fd != -1 && close(fd) == 0);
}

static void page_end(struct page *page)
{
    int fd = open(page->path, O_RDONLY | O_CLOEXEC);
    ASSERT(fd != -1);
    ssize_t size = read(fd, page->text, sizeof(page->text) - 1);
    ASSERT(size >= 0 && close(fd) == 0 && unlink(page->path) == 0);
    page->text[size] = '\0';
}

TEST(every_combination_has_its_table)
{
    CHECK_EQ(sim("--workload=rag,hot --policy=warm,round_robin --backends=1,2 --rate=2,4 "
                 "--requests=40"),
             COMMAND_OK);
    const char *out = child_text(child.out);
    CHECK_EQ(count_of(out, "policy "), 8);
    CHECK_EQ(count_of(out, "\nround_robin "), 8);
    CHECK_EQ(count_of(out, "hot, llama-3.1-8b, 2 backends, 4 requests/s"), 1);
    CHECK(said("16/16 runs, 100%"));
    child_close(&child);
}

TEST(changes_of_the_fleet_have_their_tables)
{
    CHECK_EQ(sim("--workload=unique --policy=warm,random --backends=2 --rate=4 --requests=80 "
                 "--change=join:1@5s,slow:3:5x@6s-8s --change leave:1@10"),
             COMMAND_OK);
    const char *out = child_text(child.out);
    CHECK_EQ(count_of(out, "after join:1@5s "), 1);
    CHECK_EQ(count_of(out, "after slow:3:5x@6s-8s "), 1);
    CHECK_EQ(count_of(out, "after leave:1@10 "), 1);
    child_close(&child);
}

TEST(several_routers_are_named_and_a_single_one_is_not)
{
    CHECK_EQ(sim("--workload=rag --policy=warm --backends=2 --rate=4 --requests=80 --routers=3 "
                 "--sync=1s --loss=0.1 --spread=client"),
             COMMAND_OK);
    CHECK_EQ(count_of(child_text(child.out), "2 backends, 3 routers, 4 requests/s"), 1);
    child_close(&child);
    CHECK_EQ(sim("--workload=rag --policy=warm --backends=2 --rate=4 --requests=80 --sync=never"),
             COMMAND_OK);
    CHECK_EQ(count_of(child_text(child.out), "2 backends, 4 requests/s"), 1);
    child_close(&child);
}

TEST(load_is_a_share_of_saturation)
{
    CHECK_EQ(sim("--workload=unique --policy=random --backends=1 --load=0.5 --requests=40"),
             COMMAND_OK);
    CHECK(strstr(child_text(child.out), "unique, llama-3.1-8b, 1 backends, load 0.5 (") != NULL);
    child_close(&child);
}

TEST(equal_command_lines_give_equal_bytes_on_any_number_of_threads)
{
    static struct page pages[2];
    static const char *const threads[] = {"1", "4"};
    for (int i = 0; i < 2; i++) {
        char line[256];
        page_begin(&pages[i]);
        snprintf(line, sizeof(line),
                 "--workload=chat --policy=warm,random,gaie --backends=2 --rate=3 --seeds=2 "
                 "--requests=60 --threads=%s --json=%.31s",
                 threads[i], pages[i].path);
        CHECK_EQ(sim(line), COMMAND_OK);
        child_close(&child);
        page_end(&pages[i]);
    }
    CHECK(strlen(pages[0].text) > 1000);
    CHECK(strcmp(pages[0].text, pages[1].text) == 0);
    struct json_value points;
    CHECK_EQ(json_find(slice_str(pages[0].text), (const char *const[]){"points"}, 1, &points),
             STATUS_OK);
    CHECK_EQ(points.kind, JSON_ARRAY);
}

TEST(another_seed_is_another_run)
{
    static struct page pages[2];
    for (int i = 0; i < 2; i++) {
        char line[256];
        page_begin(&pages[i]);
        snprintf(line, sizeof(line),
                 "--workload=rag --policy=warm --backends=2 --rate=3 --requests=60 --seed=%d "
                 "--markdown=%.31s",
                 i + 1, pages[i].path);
        CHECK_EQ(sim(line), COMMAND_OK);
        child_close(&child);
        page_end(&pages[i]);
    }
    CHECK(strcmp(pages[0].text, pages[1].text) != 0);
}

TEST(a_trace_alone_runs_as_it_was_recorded)
{
    static struct page trace;
    static struct page html;
    page_begin(&trace);
    page_begin(&html);
    FILE *file = fopen(trace.path, "we");
    for (int i = 0; i < 50; i++) {
        fprintf(file,
                "{\"timestamp\": %d, \"input_length\": 1000, \"output_length\": 5, "
                "\"hash_ids\": [1, %d]}\n",
                i * 100, i);
    }
    fclose(file);
    char line[256];
    snprintf(line, sizeof(line), "--trace=%.31s --policy=warm,round_robin --score --html=%.31s",
             trace.path, html.path);
    CHECK_EQ(sim(line), COMMAND_OK);
    const char *out = child_text(child.out);
    CHECK_EQ(count_of(out, trace.path + strlen("/tmp/")), 0); // its ending is left out
    CHECK_EQ(strncmp(out, "sim_test, llama-3.1-8b, 8 backends; an infinite cache hits ", 59), 0);
    CHECK(strstr(out, "Score of `warm`") != NULL);
    child_close(&child);
    page_end(&trace);
    page_end(&html);
    CHECK(strstr(html.text, "</html>") != NULL);
}

TEST(wrong_words_are_refused_before_anything_runs)
{
    static const struct {
        const char *line;
        int status;
        const char *says;
    } cases[] = {
        {"--policy=warm", COMMAND_USAGE, "say --trace FILE, or --workload with one of b2b, rag,"},
        {"--workload=rag --policy=warn", COMMAND_USAGE, "no policy warn; did you mean \"warm\"?"},
        {"--workload=zebra", COMMAND_USAGE, "no workload zebra; there are b2b, rag"},
        {"--workload=rag --model=lama-3.1-8b", COMMAND_USAGE, "did you mean \"llama-3.1-8b\"?"},
        {"--workload=rag --load=0.5 --rate=3", COMMAND_USAGE, "one of --load, --rate and --users"},
        {"--workload=rag --load=0", COMMAND_USAGE, "--load: 0 is too small"},
        {"--workload=rag --backends=1.5", COMMAND_USAGE, "--backends: \"1.5\" is not a number"},
        {"--workload=rag --rate=nan", COMMAND_USAGE, "--rate: \"nan\" is not a number"},
        {"--workload=rag --rate=-1", COMMAND_USAGE, "--rate: \"-1\" is not a number"},
        {"--workload=rag --rate=1x", COMMAND_USAGE, "--rate: \"1x\" is not a number"},
        {"--workload=rag --rate=", COMMAND_USAGE, "--rate: \"\" is not a number"},
        {"--workload=rag --rate=1e9", COMMAND_USAGE, "--rate: 1e9 is too large"},
        {"--workload=rag --sort=ttf", COMMAND_USAGE, "no column ttf; did you mean \"ttft\"?"},
        {"--workload=rag --judge=nobody", COMMAND_USAGE, "--judge: no policy: nobody"},
        {"--workload=rag --policy=warm --score", COMMAND_USAGE,
         "--score needs the judged policy and another one: warm"},
        {"--workload=rag --seeds=0", COMMAND_USAGE, "--seeds: 0 is too small, the least is 1"},
        {"--workload=rag --warm-up=1", COMMAND_USAGE, "--warm-up: 1 is too large, the most is 0.9"},
        {"--workload=rag --change=join", COMMAND_USAGE, "--change: join: write join:N@TIME"},
        {"--workload=rag --backends=2,9 --change=leave:3@1s", COMMAND_USAGE,
         "--change: leave:3@1s: there are backends 1 to 2 then"},
        {"--workload=rag --routers=0", COMMAND_USAGE, "--routers: 0 is too small"},
        {"--workload=rag --sync=often", COMMAND_USAGE, "--sync: \"often\" is not"},
        {"--workload=rag --loss=1.5", COMMAND_USAGE, "--loss: 1.5 is too large"},
        {"--workload=rag --spread=wide", COMMAND_USAGE, "--spread: \"wide\" is not one of"},
        {"--trace=/nowhere/x.jsonl", COMMAND_USAGE, "/nowhere/x.jsonl: No such file"},
        {"--workload=rag --rate=1 --json=/nowhere/x", COMMAND_FAILED, "/nowhere/x: No such file"},
        {"--workload=rag --calibration=/nowhere/c", COMMAND_USAGE, "/nowhere/c: No such file"},
        {"--workload=rag --rate=1 --share=0.5", COMMAND_FAILED, "the share of this workload"},
    };
    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        CHECK_EQ(sim(cases[i].line), cases[i].status);
        CHECK(said(cases[i].says));
        CHECK_STR(child_text(child.out), "");
        child_close(&child);
    }
}

TEST(models_may_come_from_a_calibration_file)
{
    static struct page file;
    page_begin(&file);
    FILE *out = fopen(file.path, "we");
    fputs("{\"models\": {\"mine\": {\"kv_tokens\": 100000, \"step\": {\"floor_ms\": 5, "
          "\"token_ms\": 0.02, \"sharpness\": 2, \"cross_ms\": 0, \"square_ms\": 0, "
          "\"square_behind_ms\": 0, \"cached_ms\": 0, \"context_ms\": 1e-5, "
          "\"sequence_ms\": 1e-3}}}}",
          out);
    fclose(out);
    char line[256];
    snprintf(line, sizeof(line),
             "--workload=unique --policy=warm --rate=1 --requests=20 --calibration=%.31s",
             file.path);
    CHECK_EQ(sim(line), COMMAND_OK);
    CHECK(strstr(child_text(child.out), "unique, mine, 8 backends") != NULL);
    child_close(&child);
    page_end(&file);
}

TEST(a_full_disk_is_a_failure)
{
    CHECK_EQ(sim("--workload=rag --rate=1 --requests=20 --policy=warm --json=/dev/full"),
             COMMAND_FAILED);
    CHECK(said("/dev/full: could not be written"));
    child_close(&child);
}

TEST(a_question_mark_lists_the_workloads)
{
    CHECK_EQ(sim("--workload=?"), COMMAND_OK);
    CHECK(strstr(child_text(child.out), "rag        questions about") != NULL);
    child_close(&child);
}
