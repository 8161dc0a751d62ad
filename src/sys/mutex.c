// SPDX-License-Identifier: Apache-2.0

#include "sys/mutex.h"

#include "base/base.h"

void mutex_init(struct mutex *mutex)
{
    ASSERT(pthread_mutex_init(&mutex->lock, NULL) == 0);
}

void mutex_fini(struct mutex *mutex)
{
    ASSERT(pthread_mutex_destroy(&mutex->lock) == 0);
}

void mutex_lock(struct mutex *mutex)
{
    ASSERT(pthread_mutex_lock(&mutex->lock) == 0);
}

void mutex_unlock(struct mutex *mutex)
{
    ASSERT(pthread_mutex_unlock(&mutex->lock) == 0);
}
