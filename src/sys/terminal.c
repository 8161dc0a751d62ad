// SPDX-License-Identifier: Apache-2.0

#include "sys/terminal.h"

#include "base/base.h"
#include "sys/loop.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

enum {
    usual_width = 80,
    usual_height = 24,
    typed_size = 256,
    // How long terminal_close waits for a terminal that takes no bytes.
    leave_wait_ms = 200,
};

// Alternate screen, no cursor, no wrapping: the last column can be written without a scroll.
static const char enter_text[] = "\033[?1049h\033[?25l\033[?7l";
// The end of a synchronized update first: it may have been left in the middle of one.
static const char leave_text[] = "\033[?2026l\033[0m\033[?7h\033[?25h\033[?1049l";

static const int heard_signals[] = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGWINCH, SIGTSTP, SIGCONT};
static const int fatal_signals[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};

struct terminal_source {
    struct loop_source source; // first: `ready` finds us from here
    struct terminal *terminal;
};

struct terminal {
    struct terminal_source keys;
    struct terminal_source signals;
    struct loop *loop;
    struct terminal_listener listener;
    struct termios before;
    sigset_t mask_before;
    struct sigaction crash_before[ARRAY_COUNT(fatal_signals)];
    bool is_ours;
    uint8_t *pending;
    size_t pending_size;
    size_t pending_sent;
    size_t size_max;
};

// A handler of signals has no other way to find it: the one global of this file.
static struct terminal *volatile at_crash;

bool terminal_is(FILE *file)
{
    return isatty(fileno(file)) == 1;
}

// Writes all of it, unless the terminal takes nothing for too long.  Safe in a handler.
static void write_hard(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t sent = write(fd, text, size);
        if (sent > 0) {
            text += sent;
            size -= (size_t)sent;
        } else if (sent == -1 && errno == EINTR) {
            continue;
        } else {
            struct pollfd wait = {.fd = fd, .events = POLLOUT};
            if (errno != EAGAIN || poll(&wait, 1, leave_wait_ms) != 1 ||
                (wait.revents & POLLOUT) == 0) {
                return;
            }
        }
    }
}

static void terminal_leave(struct terminal *terminal)
{
    int fd = terminal->keys.source.fd;
    if (terminal->is_ours) {
        terminal->is_ours = false;
        write_hard(fd, leave_text, sizeof(leave_text) - 1);
        // Not TCSADRAIN, which waits for a terminal that takes nothing.
        (void)tcsetattr(fd, TCSANOW, &terminal->before);
    }
}

static enum status terminal_enter(struct terminal *terminal)
{
    int fd = terminal->keys.source.fd;
    struct termios raw = terminal->before;

    // Signals stay on: users expect ^C and ^Z to work.
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
    raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL | INLCR);
    raw.c_oflag &= ~(tcflag_t)OPOST;
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(fd, TCSANOW, &raw) == -1) {
        return STATUS_IO;
    }
    terminal->is_ours = true;
    write_hard(fd, enter_text, sizeof(enter_text) - 1);
    return STATUS_OK;
}

static void terminal_crash(int number)
{
    struct terminal *terminal = at_crash;
    at_crash = NULL;
    if (terminal != NULL) {
        terminal_leave(terminal);
    }
    raise(number); // SA_RESETHAND: this time it is deadly
}

static void watch_crashes(struct terminal *terminal)
{
    struct sigaction action = {.sa_flags = (int)SA_RESETHAND | SA_NODEFER};
    action.sa_handler = terminal_crash;
    at_crash = terminal;
    for (size_t i = 0; i < ARRAY_COUNT(fatal_signals); i++) {
        ASSERT(sigaction(fatal_signals[i], &action, &terminal->crash_before[i]) == 0);
    }
}

static void unwatch_crashes(struct terminal *terminal)
{
    at_crash = NULL;
    for (size_t i = 0; i < ARRAY_COUNT(fatal_signals); i++) {
        ASSERT(sigaction(fatal_signals[i], &terminal->crash_before[i], NULL) == 0);
    }
}

static void flush_pending(struct terminal *terminal)
{
    while (terminal->pending_sent < terminal->pending_size) {
        ssize_t sent = write(terminal->keys.source.fd, terminal->pending + terminal->pending_sent,
                             terminal->pending_size - terminal->pending_sent);
        if (sent == -1 && errno == EINTR) {
            continue;
        }
        if (sent <= 0) {
            return; // the loop tells when there is room, or that it is gone
        }
        terminal->pending_sent += (size_t)sent;
    }
    terminal->pending_sent = 0;
    terminal->pending_size = 0;
}

static void keys_ready(struct loop_source *source, uint32_t events)
{
    struct terminal *terminal = ((struct terminal_source *)source)->terminal;
    uint8_t bytes[typed_size];
    ssize_t size;

    if ((events & LOOP_WRITABLE) != 0) {
        flush_pending(terminal);
    }
    while ((size = read(source->fd, bytes, sizeof(bytes))) > 0) {
        terminal->listener.typed(terminal->listener.owner, slice_of(bytes, (size_t)size));
    }
    if (size == 0 || (errno != EAGAIN && errno != EINTR)) {
        terminal->listener.ended(terminal->listener.owner);
    }
}

static void terminal_suspend(struct terminal *terminal)
{
    terminal->pending_size = 0;
    terminal->pending_sent = 0;
    terminal_leave(terminal);
    kill(getpid(), SIGSTOP); // goes on behind it, on SIGCONT, which is heard as well
}

static void terminal_heard(struct terminal *terminal, uint32_t number)
{
    switch (number) {
    case SIGWINCH:
        terminal->listener.resized(terminal->listener.owner);
        break;
    case SIGTSTP:
        terminal_suspend(terminal);
        break;
    case SIGCONT:
        // The shell has used the terminal meanwhile.
        if (terminal_enter(terminal) == STATUS_OK) {
            terminal->listener.resized(terminal->listener.owner);
        }
        break;
    default:
        terminal->listener.ended(terminal->listener.owner);
        break;
    }
}

static void terminal_signals_ready(struct loop_source *source, uint32_t events)
{
    struct terminal *terminal = ((struct terminal_source *)source)->terminal;
    struct signalfd_siginfo info;

    (void)events;
    while (read(source->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        terminal_heard(terminal, info.ssi_signo);
    }
}

static enum status listen_to(struct terminal *terminal)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_COUNT(heard_signals); i++) {
        sigaddset(&set, heard_signals[i]);
    }
    ASSERT(pthread_sigmask(SIG_BLOCK, &set, &terminal->mask_before) == 0);
    terminal->signals.source.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (terminal->signals.source.fd == -1) {
        return STATUS_IO;
    }
    enum status status = loop_add(terminal->loop, &terminal->signals.source);
    return status == STATUS_OK ? loop_add(terminal->loop, &terminal->keys.source) : status;
}

// A description of our own.  The name of a terminal may mean another one, or none, in a container.
static int open_anew(void)
{
    int flags = O_RDWR | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
    if (isatty(STDOUT_FILENO) != 1) {
        return -1;
    }
    int fd = open("/proc/self/fd/1", flags);
    return fd != -1 ? fd : open("/dev/tty", flags);
}

enum status terminal_open(struct loop *loop, const struct terminal_listener *listener,
                          size_t size_max, struct terminal **out)
{
    struct terminal *terminal = calloc(1, sizeof(*terminal));
    enum status status = STATUS_IO;

    ASSERT(at_crash == NULL);
    if (terminal == NULL) {
        return STATUS_IO;
    }
    terminal->loop = loop;
    terminal->listener = *listener;
    terminal->size_max = size_max;
    terminal->keys = (struct terminal_source){{.fd = -1, .ready = keys_ready}, terminal};
    terminal->signals =
        (struct terminal_source){{.fd = -1, .ready = terminal_signals_ready}, terminal};
    ASSERT(pthread_sigmask(SIG_SETMASK, NULL, &terminal->mask_before) == 0);
    terminal->pending = malloc(size_max);
    terminal->keys.source.fd = open_anew();
    if (terminal->pending == NULL || terminal->keys.source.fd == -1 ||
        tcgetattr(terminal->keys.source.fd, &terminal->before) == -1) {
        goto out;
    }
    watch_crashes(terminal);
    status = listen_to(terminal);
    if (status == STATUS_OK) {
        status = terminal_enter(terminal);
    }
    if (status == STATUS_OK) {
        *out = terminal;
        terminal = NULL; // now the caller's
    }

out:;
    int saved_errno = errno;
    terminal_close(&terminal);
    errno = saved_errno;
    return status;
}

static void terminal_source_close(struct terminal_source *source, struct loop *loop)
{
    loop_remove(loop, &source->source);
    if (source->source.fd != -1) {
        close(source->source.fd);
    }
}

void terminal_close(struct terminal **terminal_ptr)
{
    struct terminal *terminal = *terminal_ptr;
    *terminal_ptr = NULL;

    if (terminal == NULL) {
        return;
    }
    terminal_leave(terminal);
    if (at_crash == terminal) {
        unwatch_crashes(terminal);
    }
    terminal_source_close(&terminal->keys, terminal->loop);
    terminal_source_close(&terminal->signals, terminal->loop);
    ASSERT(pthread_sigmask(SIG_SETMASK, &terminal->mask_before, NULL) == 0);
    free(terminal->pending);
    free(terminal);
}

static struct terminal_size terminal_size_of(int fd)
{
    struct winsize size = {0};
    if (ioctl(fd, TIOCGWINSZ, &size) == -1) {
        return (struct terminal_size){0};
    }
    return (struct terminal_size){size.ws_col > 0 ? size.ws_col : usual_width,
                                  size.ws_row > 0 ? size.ws_row : usual_height};
}

struct terminal_size terminal_size(const struct terminal *terminal)
{
    struct terminal_size size = terminal_size_of(terminal->keys.source.fd);
    return size.width > 0 ? size : (struct terminal_size){usual_width, usual_height};
}

struct terminal_size terminal_size_of_output(void)
{
    return terminal_size_of(STDOUT_FILENO);
}

bool terminal_is_busy(const struct terminal *terminal)
{
    return terminal->pending_size > 0;
}

void terminal_write(struct terminal *terminal, struct slice bytes)
{
    ASSERT(!terminal_is_busy(terminal) && bytes.size <= terminal->size_max);
    memcpy(terminal->pending, bytes.bytes, bytes.size);
    terminal->pending_size = bytes.size;
    flush_pending(terminal);
}
