// SPDX-License-Identifier: Apache-2.0

#include "drive/drive_progress.h"

#include "drive/run_fixture.h"
#include "test.h"

// The progress line of a run that is over, as if it still ran.
static const char *shown(struct drive_progress *progress)
{
    static char text[1024];
    struct scene scene;
    progress->out = tmpfile();
    ASSERT(progress->out != NULL);
    scene_open(&scene, &(struct workload_options){.kind = "sharing", .rate = 500, .requests = 20});
    scene_run(&scene);
    drive_progress_show(progress, scene.run);
    scene_close(&scene);
    drive_progress_end(progress);
    rewind(progress->out);
    size_t size = fread(text, 1, sizeof(text) - 1, progress->out);
    text[size] = '\0';
    fclose(progress->out);
    return text;
}

TEST(without_a_terminal_it_is_a_line_now_and_then)
{
    struct drive_progress progress = {.request_count = 20};
    const char *text = shown(&progress);
    CHECK(strncmp(text, "20/20  0 in flight  ", 20) == 0);
    CHECK(strstr(text, "first token") != NULL);
    CHECK(strstr(text, "  0 failed\n") != NULL);
    CHECK(strchr(text, '\r') == NULL);
    CHECK(drive_progress_ms(&progress) >= 1000);
}

TEST(on_a_terminal_it_is_written_over_and_leaves_a_clean_line)
{
    struct drive_progress progress = {.is_terminal = true, .duration_s = 60};
    const char *text = shown(&progress);
    CHECK_EQ(text[0], '\r');
    CHECK(strstr(text, "/60 s  20 done") != NULL);
    CHECK(strchr(text, '\n') == NULL);
    CHECK_STR(text + strlen(text) - 4, "\r\x1b[K");
    CHECK(drive_progress_ms(&progress) < 1000);
}

TEST(unknown_figures_are_left_out)
{
    struct drive_progress progress = {.is_whole = true};
    const char *text = shown(&progress);
    CHECK(strncmp(text, "20 done  0 in flight", 20) == 0);
    CHECK(strstr(text, "first token") == NULL);
    CHECK(strstr(text, "  response ") != NULL);
}
