// SPDX-License-Identifier: Apache-2.0
//
// mutex.h -- one at a time.  For threads that may wait for each other: never on the path of a request.
//
// Threads: any; who locks unlocks.  Memory: taken by _create.
#pragma once

struct mutex;

// NULL when memory is short.
struct mutex *mutex_create(void);

// Nobody holds it.  Clears the caller's pointer, which may be NULL.
void mutex_destroy(struct mutex **mutex);

void mutex_lock(struct mutex *mutex);
void mutex_unlock(struct mutex *mutex);
