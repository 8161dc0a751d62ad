// SPDX-License-Identifier: Apache-2.0

#include "sys/mutex.h"

#include "base/base.h"

#include <pthread.h>
#include <stdlib.h>

struct mutex {
    pthread_mutex_t lock;
};

struct mutex *mutex_create(void)
{
    struct mutex *mutex = calloc(1, sizeof(*mutex));
    if (mutex != NULL) {
        ASSERT(pthread_mutex_init(&mutex->lock, NULL) == 0);
    }
    return mutex;
}

void mutex_destroy(struct mutex **mutex_ptr)
{
    struct mutex *mutex = *mutex_ptr;
    *mutex_ptr = NULL;

    if (mutex != NULL) {
        ASSERT(pthread_mutex_destroy(&mutex->lock) == 0);
    }
    free(mutex);
}

void mutex_lock(struct mutex *mutex)
{
    ASSERT(pthread_mutex_lock(&mutex->lock) == 0);
}

void mutex_unlock(struct mutex *mutex)
{
    ASSERT(pthread_mutex_unlock(&mutex->lock) == 0);
}
