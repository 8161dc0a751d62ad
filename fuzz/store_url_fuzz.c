// SPDX-License-Identifier: Apache-2.0
//
// For any text: a refusal is explained; the name of an accepted URL has no login, and if it is not
// cut it reads as the same URL without one.

#include "base/base.h"
#include "cluster/store_url.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

static void check_named(const struct store_url *url)
{
    char name[store_name_size];
    char error[store_url_error_size];
    struct store_url again;

    store_url_name(url, name);
    ASSERT(memchr(name, '\0', sizeof(name)) != NULL);
    ASSERT(url->has_password == (url->password[0] != '\0'));
    if (strlen(name) + 4 >= sizeof(name)) {
        return;
    }
    // A master's name may have an @, which would end a login.
    if (strchr(name, '@') != NULL) {
        return;
    }
    ASSERT(store_url_read(name, &again, error) == STATUS_OK);
    ASSERT(again.host_count == url->host_count && again.database == url->database);
    ASSERT(again.is_tls == url->is_tls && again.is_sentinel == url->is_sentinel);
    ASSERT(strcmp(again.master, url->master) == 0 && !again.has_password);
    for (uint32_t i = 0; i < url->host_count; i++) {
        ASSERT(strcmp(again.hosts[i].name, url->hosts[i].name) == 0);
        ASSERT(again.hosts[i].port == url->hosts[i].port);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char error[store_url_error_size] = "";
    struct store_url url;
    char *text = malloc(size + 1);

    ASSERT(text != NULL);
    if (size > 0) {
        memcpy(text, bytes, size);
    }
    text[size] = '\0';
    if (store_url_read(text, &url, error) == STATUS_OK) {
        ASSERT(error[0] == '\0' && url.host_count > 0);
        check_named(&url);
    } else {
        ASSERT(error[0] != '\0' && memchr(error, '\0', sizeof(error)) != NULL);
    }
    free(text);
    return 0;
}
