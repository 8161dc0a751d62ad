// SPDX-License-Identifier: Apache-2.0

#include "sys/signals.h"

#include "base/base.h"
#include "sys/loop.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct signals {
    struct loop_source source; // first: `ready` finds us from here
    void (*heard)(void *owner, enum signal_kind kind);
    void *owner;
};

static void heard_set(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGHUP);
    sigaddset(set, SIGUSR1);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
}

static enum signal_kind signal_kind_of(uint32_t number)
{
    switch (number) {
    case SIGHUP:
        return SIGNAL_RELOAD;
    case SIGUSR1:
        return SIGNAL_REOPEN;
    default:
        return SIGNAL_STOP;
    }
}

static void signals_ready(struct loop_source *source, uint32_t events)
{
    struct signals *signals = (struct signals *)source;
    struct signalfd_siginfo info;

    (void)events;
    while (read(source->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        signals->heard(signals->owner, signal_kind_of(info.ssi_signo));
    }
}

enum status signals_open(struct loop *loop, void (*heard)(void *owner, enum signal_kind kind),
                         void *owner, struct signals **out)
{
    struct signals *signals = calloc(1, sizeof(*signals));
    sigset_t set;
    if (signals == NULL) {
        return STATUS_IO;
    }
    heard_set(&set);
    ASSERT(signal(SIGPIPE, SIG_IGN) != SIG_ERR);
    ASSERT(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    signals->heard = heard;
    signals->owner = owner;
    signals->source.ready = signals_ready;
    signals->source.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (signals->source.fd == -1 || loop_add(loop, &signals->source) != STATUS_OK) {
        signals_close(&signals, loop);
        return STATUS_IO;
    }
    *out = signals;
    return STATUS_OK;
}

void signals_close(struct signals **signals_ptr, struct loop *loop)
{
    struct signals *signals = *signals_ptr;
    *signals_ptr = NULL;

    if (signals == NULL) {
        return;
    }
    loop_remove(loop, &signals->source);
    if (signals->source.fd != -1) {
        close(signals->source.fd);
    }
    free(signals);
}
