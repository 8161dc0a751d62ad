// SPDX-License-Identifier: Apache-2.0
//
// The terminal is a pseudo-terminal that a child process uses; this process holds the other side.

#include "sys/terminal.h"

#include "sys/clock.h"
#include "sys/loop.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define ENTER "\033[?1049h\033[?25l\033[?7l"
#define LEAVE "\033[?2026l\033[0m\033[?7h\033[?25h\033[?1049l"

enum { wait_ms = 10000, big_size = 1 << 20 };

static int master;
static int slave;
static pid_t child;
static struct termios before;
static char seen[1 << 16];
static size_t seen_size;

TEST(a_file_is_not_a_terminal)
{
    FILE *file = tmpfile();
    CHECK(file != NULL);
    CHECK(!terminal_is(file));
    fclose(file);
}

TEST(the_master_of_a_pseudo_terminal_is_one)
{
    int fd = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(fd != -1);
    FILE *file = fdopen(fd, "r+");
    CHECK(file != NULL);
    CHECK(terminal_is(file));
    fclose(file);
}

// The child: it writes a word for each thing that the terminal reports.
struct user {
    struct loop *loop;
    struct terminal *terminal;
    bool is_over;
};

static void say(struct user *user, const char *text)
{
    if (!terminal_is_busy(user->terminal)) {
        terminal_write(user->terminal, slice_str(text));
    }
}

static void press(struct user *user, char key)
{
    static uint8_t big[big_size];
    char text[64];

    switch (key) {
    case 'q':
        user->is_over = true;
        break;
    case 'a':
        assert_fail("a key", __FILE__, __LINE__, __func__);
    case 'b': // more than any terminal holds
        memset(big, 'B', sizeof(big));
        terminal_write(user->terminal, slice_of(big, sizeof(big)));
        break;
    default:
        snprintf(text, sizeof(text), "<%c>", key);
        say(user, text);
        break;
    }
}

static void typed(void *owner, struct slice bytes)
{
    for (size_t i = 0; i < bytes.size; i++) {
        press(owner, (char)bytes.bytes[i]);
    }
}

static void resized(void *owner)
{
    struct user *user = owner;
    struct terminal_size size = terminal_size(user->terminal);
    char text[64];
    snprintf(text, sizeof(text), "[%ux%u]", size.width, size.height);
    say(user, text);
}

static void ended(void *owner)
{
    struct user *user = owner;
    user->is_over = true;
}

static int use_terminal(void)
{
    struct user user = {0};
    const struct terminal_listener listener = {typed, resized, ended, &user};
    if (loop_create(&user.loop) != STATUS_OK ||
        terminal_open(user.loop, &listener, big_size, &user.terminal) != STATUS_OK) {
        return 9;
    }
    resized(&user);
    while (!user.is_over) {
        loop_turn(user.loop, 100);
    }
    terminal_close(&user.terminal);
    loop_destroy(&user.loop);
    return 0;
}

static void start(uint16_t width, uint16_t height)
{
    struct winsize size = {.ws_col = width, .ws_row = height};
    char name[128];

    master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ASSERT(master != -1 && grantpt(master) == 0 && unlockpt(master) == 0);
    ASSERT(ptsname_r(master, name, sizeof(name)) == 0);
    ASSERT(ioctl(master, TIOCSWINSZ, &size) == 0);
    slave = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
    ASSERT(slave != -1 && tcgetattr(slave, &before) == 0);
    seen_size = 0;
    seen[0] = '\0';
    fflush(NULL);
    child = fork();
    ASSERT(child != -1);
    if (child == 0) {
        ASSERT(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
        close(master); // or it would never be gone
        ASSERT(setsid() != -1 && ioctl(slave, TIOCSCTTY, 0) == 0);
        ASSERT(dup2(slave, STDOUT_FILENO) != -1);
        _exit(use_terminal());
    }
}

static void type(const char *text)
{
    ASSERT(write(master, text, strlen(text)) == (ssize_t)strlen(text));
}

// Reads what comes, for so long at most; false when nothing does.
static bool read_some(int limit_ms)
{
    struct pollfd wait = {.fd = master, .events = POLLIN};
    if (poll(&wait, 1, limit_ms) != 1) {
        return false;
    }
    ssize_t size = read(master, seen + seen_size, sizeof(seen) - 1 - seen_size);
    if (size <= 0) {
        return false;
    }
    seen_size += (size_t)size;
    seen[seen_size] = '\0';
    return true;
}

// Whether that text is seen in time; all up to its end is forgotten.
static bool sees(const char *text)
{
    char *found;
    while ((found = strstr(seen, text)) == NULL) {
        if (!read_some(wait_ms)) {
            printf("# saw \"%s\"\n", seen);
            return false;
        }
    }
    seen_size -= (size_t)(found + strlen(text) - seen);
    memmove(seen, found + strlen(text), seen_size + 1);
    return true;
}

// How it ended: the exit code, or minus the signal.
static int finish(void)
{
    int status = 0;
    uint64_t end_ns = clock_monotonic_ns() + wait_ms * (uint64_t)1000000;
    while (waitpid(child, &status, WNOHANG) == 0) {
        read_some(5); // it may be waiting for room
        if (clock_monotonic_ns() > end_ns) {
            kill(child, SIGKILL);
        }
        seen_size = seen_size > sizeof(seen) / 2 ? 0 : seen_size;
    }
    while (read_some(0)) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static bool is_as_before(void)
{
    struct termios now;
    ASSERT(tcgetattr(slave, &now) == 0);
    return now.c_iflag == before.c_iflag && now.c_oflag == before.c_oflag &&
           now.c_lflag == before.c_lflag && now.c_cflag == before.c_cflag &&
           memcmp(now.c_cc, before.c_cc, sizeof(now.c_cc)) == 0;
}

static void stop(void)
{
    close(slave);
    close(master);
}

TEST(keys_come_one_by_one_without_echo_and_closing_restores_the_terminal)
{
    start(100, 30);
    CHECK(sees(ENTER "[100x30]"));
    CHECK(!is_as_before());
    type("x");
    CHECK(sees("<x>"));
    CHECK_EQ(seen_size, 0);
    type("q");
    CHECK_EQ(finish(), 0);
    CHECK(sees(LEAVE));
    CHECK(is_as_before());
    stop();
}

TEST(every_ending_signal_restores_the_terminal)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        start(80, 24);
        CHECK(sees("[80x24]"));
        kill(child, numbers[i]);
        CHECK_EQ(finish(), 0);
        CHECK(sees(LEAVE));
        CHECK(is_as_before());
        stop();
    }
}

TEST(the_keys_of_the_signals_still_send_them)
{
    start(80, 24);
    CHECK(sees("[80x24]"));
    type("\003");
    CHECK_EQ(finish(), 0);
    CHECK(sees(LEAVE));
    CHECK(is_as_before());
    stop();
}

TEST(a_crash_restores_the_terminal_before_the_process_ends)
{
    start(80, 24);
    CHECK(sees("[80x24]"));
    type("a");
    CHECK_EQ(finish(), -SIGABRT);
    CHECK(sees(LEAVE));
    CHECK(is_as_before());
    stop();
}

TEST(a_new_size_is_reported)
{
    start(80, 24);
    CHECK(sees("[80x24]"));
    struct winsize size = {.ws_col = 132, .ws_row = 43};
    CHECK_EQ(ioctl(master, TIOCSWINSZ, &size), 0);
    CHECK(sees("[132x43]"));
    type("q");
    CHECK_EQ(finish(), 0);
    stop();
}

TEST(a_terminal_without_a_size_has_the_usual_one)
{
    start(0, 0);
    CHECK(sees("[80x24]"));
    type("q");
    CHECK_EQ(finish(), 0);
    stop();
}

TEST(a_stopped_process_restores_the_terminal_and_takes_it_again)
{
    int status;
    start(80, 24);
    CHECK(sees("[80x24]"));
    kill(child, SIGTSTP);
    CHECK(sees(LEAVE));
    CHECK_EQ(waitpid(child, &status, WUNTRACED), child);
    CHECK(WIFSTOPPED(status));
    CHECK(is_as_before());
    kill(child, SIGCONT);
    CHECK(sees(ENTER "[80x24]"));
    CHECK(!is_as_before());
    type("q");
    CHECK_EQ(finish(), 0);
    CHECK(is_as_before());
    stop();
}

TEST(a_terminal_that_takes_nothing_does_not_block)
{
    start(80, 24);
    CHECK(sees("[80x24]"));
    type("b"); // without a reader
    type("q");
    int status = 0;
    uint64_t end_ns = clock_monotonic_ns() + wait_ms * (uint64_t)1000000;
    while (waitpid(child, &status, WNOHANG) == 0 && clock_monotonic_ns() < end_ns) {
        usleep(1000);
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(is_as_before());
    stop();
}

TEST(bytes_that_it_takes_late_arrive_whole)
{
    size_t count = 0;
    start(80, 24);
    CHECK(sees("[80x24]"));
    type("b");
    while (count < big_size && read_some(wait_ms)) {
        for (size_t i = 0; i < seen_size; i++) {
            count += seen[i] == 'B';
        }
        seen_size = 0;
    }
    CHECK_EQ(count, big_size);
    seen[0] = '\0';
    type("x");
    CHECK(sees("<x>"));
    type("q");
    CHECK_EQ(finish(), 0);
    stop();
}

TEST(a_terminal_that_is_gone_ends_it)
{
    start(80, 24);
    CHECK(sees("[80x24]"));
    close(slave);
    close(master);
    int status = 0;
    CHECK_EQ(waitpid(child, &status, 0), child);
    // The kernel shows the hangup before it sends SIGHUP, which may come after the child has
    // stopped listening.
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0) ||
          (WIFSIGNALED(status) && WTERMSIG(status) == SIGHUP));
}

TEST(without_a_terminal_opening_fails)
{
    struct loop *loop = NULL;
    struct terminal *terminal = NULL;
    const struct terminal_listener listener = {typed, resized, ended, NULL};
    int out = dup(STDOUT_FILENO);
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK_EQ(loop_create(&loop), STATUS_OK);
    fflush(stdout);
    CHECK(dup2(null, STDOUT_FILENO) != -1);
    enum status status = terminal_open(loop, &listener, 16, &terminal);
    uint32_t width = terminal_size_of_output().width;
    CHECK(dup2(out, STDOUT_FILENO) != -1);
    CHECK_EQ(status, STATUS_IO);
    CHECK_EQ(width, 0);
    CHECK(terminal == NULL);
    terminal_close(&terminal);
    loop_destroy(&loop);
    close(null);
    close(out);
}
