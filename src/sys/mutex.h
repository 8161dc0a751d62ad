// SPDX-License-Identifier: Apache-2.0
//
// mutex.h -- a mutex.  For threads that may wait for each other: never on the path of a request.
//
// Threads: any; the thread that locks it unlocks it.
#pragma once

#include <pthread.h>

struct mutex {
    pthread_mutex_t lock;
};

void mutex_init(struct mutex *mutex);

// No thread may hold it.
void mutex_fini(struct mutex *mutex);

void mutex_lock(struct mutex *mutex);
void mutex_unlock(struct mutex *mutex);
