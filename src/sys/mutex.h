// SPDX-License-Identifier: Apache-2.0
//
// mutex.h -- a mutex.  For threads that may wait for each other: never on the path of a request.
//
// Threads: any; the thread that locks it unlocks it.  Memory: taken by _create.
#pragma once

struct mutex;

// NULL when memory is short.
struct mutex *mutex_create(void);

// No thread may hold it.  Clears the caller's pointer, which may be NULL.
void mutex_destroy(struct mutex **mutex);

void mutex_lock(struct mutex *mutex);
void mutex_unlock(struct mutex *mutex);
