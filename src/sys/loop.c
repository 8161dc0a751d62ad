// SPDX-License-Identifier: Apache-2.0

#include "sys/loop.h"

#include "base/base.h"
#include "sys/clock.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    source_magic = 0x50504f4c,
    event_batch = 256,
    // An idle loop looks up this often, so that a missed wake-up would cost a second, not for ever.
    wait_max_ms = 1000,
};

struct loop {
    int epoll_fd;
    int wake_fd;
    uint64_t now_ns;
    struct timer_wheel timers;
    struct loop_deferred *deferred;
    struct loop_source wake;
    void (*begin)(void *owner); // NULL: nothing to look at
    void *begin_owner;

    // Written by any thread, read by the loop's.
    struct {
        _Alignas(64) atomic_bool stop;
        atomic_bool woken;
    } shared;
};

static void read_clock(struct loop *loop)
{
    loop->now_ns = clock_monotonic_ns();
}

static void wake_ready(struct loop_source *source, uint32_t events)
{
    (void)events;
    uint64_t count;
    // Edge-triggered and never read would do as well, but for the counter's overflow.
    while (read(source->fd, &count, sizeof(count)) == (ssize_t)sizeof(count)) {
    }
}

enum status loop_create(struct loop **out)
{
    enum status status = STATUS_IO;
    struct loop *loop = aligned_alloc(64, sizeof(*loop));
    if (loop == NULL) {
        return STATUS_IO;
    }
    *loop = (struct loop){.wake_fd = -1};
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd == -1) {
        goto out;
    }
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->wake_fd == -1) {
        goto out;
    }
    loop->wake = (struct loop_source){.fd = loop->wake_fd, .ready = wake_ready};
    if (loop_add(loop, &loop->wake) != STATUS_OK) {
        goto out;
    }
    read_clock(loop);
    timer_wheel_init(&loop->timers, loop_now_ms(loop));
    *out = loop;
    loop = NULL; // now the caller's
    status = STATUS_OK;

out:;
    int saved_errno = errno;
    loop_destroy(&loop);
    errno = saved_errno;
    return status;
}

void loop_destroy(struct loop **loop_ptr)
{
    struct loop *loop = *loop_ptr;
    *loop_ptr = NULL;

    if (loop == NULL) {
        return;
    }
    if (loop->wake_fd != -1) {
        close(loop->wake_fd);
    }
    if (loop->epoll_fd != -1) {
        close(loop->epoll_fd);
    }
    free(loop);
}

enum status loop_add(struct loop *loop, struct loop_source *source)
{
    ASSERT(source->ready != NULL && source->magic == 0);

    struct epoll_event event = {
        .events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
        .data.ptr = source,
    };
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, source->fd, &event) == -1) {
        return STATUS_IO;
    }
    source->magic = source_magic;
    return STATUS_OK;
}

void loop_remove(struct loop *loop, struct loop_source *source)
{
    if (source->magic != source_magic) {
        return;
    }
    source->magic = 0;
    ASSERT(epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL) == 0);
}

void loop_defer(struct loop *loop, struct loop_deferred *deferred)
{
    deferred->next = loop->deferred;
    loop->deferred = deferred;
}

uint64_t loop_now_ms(const struct loop *loop)
{
    return loop->now_ns / 1000000;
}

uint64_t loop_now_us(const struct loop *loop)
{
    return loop->now_ns / 1000;
}

void loop_arm(struct loop *loop, struct timer *timer, uint64_t delay_ms)
{
    timer_wheel_arm(&loop->timers, timer, loop_now_ms(loop) + delay_ms);
}

void loop_disarm(struct loop *loop, struct timer *timer)
{
    timer_wheel_disarm(&loop->timers, timer);
}

static uint32_t loop_events_of(uint32_t epoll_events)
{
    uint32_t events = 0;

    if ((epoll_events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        events |= LOOP_READABLE;
    }
    if ((epoll_events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0) {
        events |= LOOP_WRITABLE;
    }
    if ((epoll_events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) {
        events |= LOOP_HANGUP;
    }
    if ((epoll_events & (EPOLLHUP | EPOLLERR)) != 0) {
        events |= LOOP_BROKEN;
    }
    return events;
}

static void run_deferred(struct loop *loop)
{
    while (loop->deferred != NULL) {
        struct loop_deferred *deferred = loop->deferred;
        loop->deferred = deferred->next;
        deferred->next = NULL;
        deferred->run(deferred);
    }
}

void loop_on_begin(struct loop *loop, void (*begin)(void *owner), void *owner)
{
    loop->begin = begin;
    loop->begin_owner = owner;
}

void loop_turn(struct loop *loop, uint64_t wait_ms)
{
    struct epoll_event events[event_batch];
    uint64_t wait = timer_wheel_wait_ms(&loop->timers, wait_ms);
    // A sleep of the remaining part of a millisecond is rounded up by the kernel, never down, so a
    // timer is not found early and the loop does not spin.
    int count = epoll_wait(loop->epoll_fd, events, event_batch, (int)wait);
    ASSERT(count != -1 || errno == EINTR);

    read_clock(loop);
    if (loop->begin != NULL) {
        loop->begin(loop->begin_owner);
    }
    for (int i = 0; i < count; i++) {
        struct loop_source *source = events[i].data.ptr;
        if (source->magic == source_magic) {
            source->ready(source, loop_events_of(events[i].events));
        }
    }
    timer_wheel_advance(&loop->timers, loop_now_ms(loop));
    run_deferred(loop);
}

void loop_run(struct loop *loop, void (*turn)(void *owner), void *owner)
{
    while (!atomic_load_explicit(&loop->shared.stop, memory_order_acquire)) {
        loop_turn(loop, wait_max_ms);
        // An exchange and no store: it sees all that was written before the wake-ups it takes back.
        (void)atomic_exchange_explicit(&loop->shared.woken, false, memory_order_seq_cst);
        if (turn != NULL) {
            turn(owner);
            run_deferred(loop);
        }
    }
}

void loop_wake(struct loop *loop)
{
    // One write per turn, however many threads have something to say.
    if (atomic_exchange_explicit(&loop->shared.woken, true, memory_order_seq_cst)) {
        return;
    }
    uint64_t one = 1;
    ASSERT(write(loop->wake_fd, &one, sizeof(one)) == (ssize_t)sizeof(one));
}

void loop_stop(struct loop *loop)
{
    atomic_store_explicit(&loop->shared.stop, true, memory_order_release);
    loop_wake(loop);
}
