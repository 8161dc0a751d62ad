// SPDX-License-Identifier: Apache-2.0

#include "feed/backend_peer.h"

#include "config/config.h"
#include "fleet/backend.h"
#include "net/tls.h"
#include "sys/log.h"
#include "test.h"

static const struct config plain = {.backend_tls = {.verify = false}};

TEST(a_peer_has_the_address_and_the_key_of_its_backend)
{
    char host[] = "engine";
    char authority[] = "engine:8000";
    char authorization[] = "Bearer key";
    struct backend backend = {
        .host = host, .authority = authority, .authorization = authorization, .tls = true};
    backend.address = (struct address){.bytes = {2}, .size = 16};

    struct fetch_peer peer = backend_peer(&backend);
    CHECK(address_equal(&peer.address, &backend.address));
    CHECK_STR(peer.host, "engine");
    CHECK_STR(peer.authority, "engine:8000");
    CHECK_STR(peer.authorization, "Bearer key");
    CHECK(peer.tls);
}

TEST(a_context_is_made_for_the_first_peer_with_tls_and_kept)
{
    struct tls_context *kept = NULL;

    CHECK(backend_peer_tls(&(struct fetch_peer){.tls = false}, &plain, &kept) == NULL);
    CHECK(kept == NULL);
    struct tls_context *made = backend_peer_tls(&(struct fetch_peer){.tls = true}, &plain, &kept);
    CHECK(made != NULL && made == kept);
    CHECK(backend_peer_tls(&(struct fetch_peer){.tls = true}, &plain, &kept) == made);
    tls_context_destroy(&kept);
}

TEST(a_missing_authority_file_leaves_the_context_empty)
{
    char path[] = "/does/not/exist.pem";
    struct config config = {.backend_tls = {.ca = path, .verify = true}};
    struct tls_context *kept = NULL;

    log_set_level(LOG_LEVEL_ERROR);
    CHECK(backend_peer_tls(&(struct fetch_peer){.tls = true}, &config, &kept) == NULL);
    CHECK(kept == NULL);
}
