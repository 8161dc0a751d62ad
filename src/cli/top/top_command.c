// SPDX-License-Identifier: Apache-2.0
//
// top -- what a running router does, on a terminal, renewed every second.
//
//     GET /overview, /decisions --> top_document --> top_screen --> top_paint --> the terminal
//
// Responses, keys and signals are events of one loop: a key takes effect at once, even while the
// router does not respond.  Only reads; nothing can be changed from here.

#include "base/base.h"
#include "base/text.h"
#include "cli/admin_client.h"
#include "cli/top/top_document.h"
#include "cli/top/top_keys.h"
#include "cli/top/top_paint.h"
#include "cli/top/top_screen.h"
#include "config/option/command.h"
#include "sys/loop.h"
#include "sys/terminal.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    // A thousand backends are half a megabyte.
    response_size_max = 16 << 20,
    tick_max_ms = 1000,
    // A question that is open for so long beyond the interval is bad news already.
    patience_ms = 2000,
    plain_width = 80,
    plain_height_min = 24,
    first_fleet_rows = 22, // what a screen has beside the fleet
    cluster_rows = 2,      // beside the routers
};

struct top_options {
    struct admin_client_options admin;
    double interval;
    bool once;
    bool ascii;
};

#define OWNER struct top_options
static const struct config_option top_flags[] = {
    ADMIN_CLIENT_FLAGS("5s"),
    RANGE(interval, seconds, "1s", "100ms", "1h", "Time between two updates."),
    FLAG(once, toggle, NULL, "Print one screen as plain text; implied without a terminal."),
    FLAG(ascii, toggle, NULL, "Use ASCII only; implied where the locale is not UTF-8."),
};
static const struct config_option_table top_table = FLAG_TABLE("top", top_flags);
#undef OWNER

struct top_command {
    struct top_options options;
    struct admin_client client;
    struct loop *loop;
    struct terminal *terminal; // NULL: one screen, into a file
    struct timer tick;
    struct fetch *asks_overview;
    struct fetch *asks_decisions;
    uint64_t asked_ms;
    uint64_t heard_ms; // the last good response, or the start
    bool has_overview;
    bool has_decisions; // a response has come, good or not
    bool is_lost;
    char why[admin_why_size]; // it is lost, or what ended us
    struct top_overview overview;
    struct top_overview fresh_overview;
    struct top_history history;
    struct top_decisions decisions;
    struct top_decisions fresh_decisions;
    struct top_view view;
    struct top_keys keys;
    struct top_grid grid;
    struct top_paint paint;
    uint8_t frame[top_paint_size_max];
    bool is_over;
    int code;
};

// The program has one thread while it reads its surroundings.
static const char *variable(const char *name)
{
    const char *value = getenv(name); // NOLINT(concurrency-mt-unsafe)
    return value != NULL ? value : "";
}

static bool has_utf8_locale(void)
{
    static const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        const char *value = variable(names[i]);
        if (value[0] != '\0') {
            return strcasestr(value, "utf-8") != NULL || strcasestr(value, "utf8") != NULL;
        }
    }
    return false;
}

static uint32_t size_from(const char *name, uint32_t otherwise)
{
    uint64_t value = 0;
    return slice_parse_u64(slice_str(variable(name)), &value) && value > 0 && value <= 10000
               ? (uint32_t)value
               : otherwise;
}

// Draws onto command->grid.
static void top_draw(struct top_command *command, uint32_t width, uint32_t height)
{
    uint64_t now_ms = loop_now_ms(command->loop);
    uint64_t silent_s = (now_ms - command->heard_ms) / 1000;
    bool is_slow =
        command->asks_overview != NULL &&
        now_ms - command->asked_ms > (uint64_t)(command->options.interval * 1000) + patience_ms;
    struct top_scene scene = {
        .overview = command->has_overview ? &command->overview : NULL,
        .history = &command->history,
        .decisions = &command->decisions,
        .link = {.silent_s = (double)silent_s,
                 .why = command->is_lost ? command->why : "no response"},
    };
    if (command->is_lost || is_slow) {
        scene.link.state = TOP_LOST;
    } else if (command->has_overview) {
        scene.link.state = TOP_LIVE;
    }
    top_grid_reset(&command->grid, width, height, command->options.ascii);
    top_screen_draw(&scene, &command->view, &command->grid);
}

// A terminal that is behind is not given more; the next tick comes.
static void paint(struct top_command *command)
{
    if (command->terminal == NULL || terminal_is_busy(command->terminal)) {
        return;
    }
    struct terminal_size size = terminal_size(command->terminal);
    struct text frame = text_over(command->frame, sizeof(command->frame));
    top_draw(command, size.width, size.height);
    top_paint_update(&command->paint, &command->grid, &frame);
    if (frame.size > 0) {
        terminal_write(command->terminal, text_slice(&frame));
    }
}

static void top_end(struct top_command *command, int code)
{
    command->is_over = true;
    command->code = code;
}

static void note_loss(struct top_command *command)
{
    command->is_lost = true;
    admin_client_turn(&command->client);
    // Nothing was ever shown: a wrong token or a wrong address is better said and done with, except
    // that a router which does not listen yet is waited for.
    if (command->terminal == NULL) {
        top_end(command, COMMAND_FAILED);
    }
}

static void overview_came(void *owner, const struct fetch_result *result)
{
    struct top_command *command = owner;

    command->asks_overview = NULL;
    if (command->view.is_paused) {
        return; // came too late
    }
    if (result->status != 200) {
        admin_client_why(result, command->why);
        note_loss(command);
        if (result->status != 0 && !command->has_overview) {
            top_end(command, COMMAND_FAILED);
        }
    } else if (top_overview_read(result->body, &command->fresh_overview) != STATUS_OK) {
        snprintf(command->why, sizeof(command->why), "the response is not an overview");
        note_loss(command);
    } else {
        memcpy(&command->overview, &command->fresh_overview, sizeof(command->overview));
        top_history_join(&command->history, &command->overview);
        command->has_overview = true;
        command->is_lost = false;
        command->heard_ms = loop_now_ms(command->loop);
    }
    paint(command);
}

// A failure is not reported here: the overview fails too.  A router may keep no decisions.
static void decisions_came(void *owner, const struct fetch_result *result)
{
    struct top_command *command = owner;

    command->asks_decisions = NULL;
    command->has_decisions = true;
    if (result->status == 200 && !command->view.is_paused &&
        top_decisions_read(result->body, &command->fresh_decisions) == STATUS_OK) {
        top_decisions_join(&command->decisions, &command->fresh_decisions);
        paint(command);
    }
}

static void top_ask(struct top_command *command)
{
    const struct top_history *history = &command->history;
    char path[admin_path_size_max];

    command->asked_ms = loop_now_ms(command->loop);
    if (command->asks_overview == NULL) {
        snprintf(path, sizeof(path), "/overview");
        if (history->count > 0) {
            snprintf(path, sizeof(path), "/overview?since=%.0f",
                     history->points[history->count - 1].time_ms);
        }
        command->asks_overview = admin_client_ask(&command->client, path, (struct slice){0},
                                                  response_size_max, overview_came, command);
    }
    if (command->asks_decisions == NULL) {
        snprintf(path, sizeof(path), "/decisions?limit=%u&since=%.0f", (unsigned)top_decision_max,
                 command->decisions.serial);
        command->asks_decisions = admin_client_ask(&command->client, path, (struct slice){0},
                                                   response_size_max, decisions_came, command);
    }
}

static void top_tick(struct timer *timer)
{
    struct top_command *command = CONTAINER_OF(timer, struct top_command, tick);
    uint64_t interval_ms = (uint64_t)(command->options.interval * 1000);
    uint64_t now_ms = loop_now_ms(command->loop);
    bool is_due = command->asked_ms == 0 || now_ms >= command->asked_ms + interval_ms;

    if (is_due && command->asks_overview == NULL && !command->view.is_paused) {
        top_ask(command);
    }
    loop_arm(command->loop, &command->tick, interval_ms < tick_max_ms ? interval_ms : tick_max_ms);
    paint(command);
}

static void typed(void *owner, struct slice bytes)
{
    struct top_command *command = owner;

    for (size_t i = 0; i < bytes.size; i++) {
        enum top_key key = top_keys_take(&command->keys, bytes.bytes[i]);
        switch (top_keys_press(&command->view, key, command->keys.letter)) {
        case TOP_QUIT:
            top_end(command, COMMAND_OK);
            break;
        case TOP_REPAINT:
            top_paint_forget(&command->paint);
            break;
        case TOP_STAY:
            break;
        }
    }
    paint(command);
}

static void resized(void *owner)
{
    struct top_command *command = owner;
    top_paint_forget(&command->paint);
    paint(command);
}

static void ended(void *owner)
{
    top_end(owner, COMMAND_OK);
}

static bool open_terminal(struct top_command *command)
{
    const struct terminal_listener listener = {typed, resized, ended, command};

    command->paint.has_color = variable("NO_COLOR")[0] == '\0';
    if (terminal_open(command->loop, &listener, sizeof(command->frame), &command->terminal) !=
        STATUS_OK) {
        return command_fail("top", "the terminal cannot be opened; --once needs none", NULL);
    }
    return true;
}

static void watch(struct top_command *command)
{
    command->tick.fire = top_tick;
    loop_arm(command->loop, &command->tick, 0);
    while (!command->is_over) {
        loop_turn(command->loop, tick_max_ms);
    }
    loop_disarm(command->loop, &command->tick);
    terminal_close(&command->terminal);
}

static bool print_screen(struct top_command *command)
{
    struct terminal_size size = terminal_size_of_output();
    uint32_t width = size.width > 0 ? size.width : size_from("COLUMNS", plain_width);
    const struct top_cluster *cluster = &command->overview.cluster;
    uint32_t wanted = command->overview.backend_count + first_fleet_rows +
                      (cluster->is_known ? cluster_rows + cluster->router_count : 0);
    uint32_t height = size_from("LINES", wanted > plain_height_min ? wanted : plain_height_min);
    uint32_t last = 0;

    top_draw(command, width, size.width > 0 ? size.height : height);
    struct top_grid *grid = &command->grid;
    struct text page = text_over(command->frame, sizeof(command->frame));
    for (uint32_t row = 0; row < grid->height; row++) {
        size_t begin = page.size;
        top_grid_write_row(grid, row, &page);
        last = page.size > begin ? row + 1 : last;
        text_add_str(&page, "\n");
    }
    ASSERT(!page.overflow);
    // Empty rows at the end are of no use to a script.
    page.size -= grid->height - last;
    bool is_written = fwrite(page.bytes, 1, page.size, stdout) == page.size;
    return is_written && fflush(stdout) == 0;
}

static void show_once(struct top_command *command)
{
    command->view.hides_foot = true;
    top_ask(command);
    while (!command->is_over && (!command->has_overview || !command->has_decisions)) {
        if (command->asks_overview == NULL && !command->has_overview) {
            snprintf(command->why, sizeof(command->why), "memory or descriptors are short");
            top_end(command, COMMAND_FAILED);
            return;
        }
        loop_turn(command->loop, tick_max_ms);
    }
    if (!command->is_over) {
        top_end(command, print_screen(command) ? COMMAND_OK : COMMAND_FAILED);
    }
}

static void top_run(struct top_command *command)
{
    bool is_plain = command->options.once || !terminal_is(stdout) ||
                    strcmp(variable("TERM"), "dumb") == 0 || variable("TERM")[0] == '\0';

    command->heard_ms = loop_now_ms(command->loop);
    if (is_plain) {
        show_once(command);
    } else if (open_terminal(command)) {
        watch(command);
    }
    fetch_cancel(&command->asks_overview);
    fetch_cancel(&command->asks_decisions);
    loop_turn(command->loop, 0); // frees closed connections
    if (command->code == COMMAND_FAILED && command->why[0] != '\0') {
        command_fail("top", command->options.admin.url, command->why);
    }
}

int command_top(int word_count, char **words)
{
    static struct top_command command; // the program's one; too large for the stack
    struct top_options *options = &command.options;

    int code = flags_read(&top_table, word_count, words, options);
    if (code != FLAGS_READ) {
        return code;
    }
    if (!admin_client_check(&command.client, "top", &options->admin)) {
        return COMMAND_USAGE;
    }
    options->ascii = options->ascii || !has_utf8_locale();
    command.code = COMMAND_FAILED;
    if (loop_create(&command.loop) != STATUS_OK) {
        command_fail("top", "start", "memory or descriptors are short");
    } else if (admin_client_open(&command.client, command.loop)) {
        top_run(&command);
    }
    admin_client_close(&command.client);
    loop_destroy(&command.loop);
    return command.code;
}
