// SPDX-License-Identifier: Apache-2.0
//
// warm -- the target where this request costs everybody the least time.
//
// Cache, queue and crowd are all counted in milliseconds, predicted from speeds that were measured, so
// that there is no weight to tune.  For a prompt of which a target lacks u tokens:
//
//     p    = time to compute u tokens behind the cached ones            (base/prefill_curve.h)
//     W    = time to compute what is queued there + decode steps in between + half a step if busy
//     l    = arrivals per ms and target
//     T    = W + p                        our own wait for the first token
//          + l * p * (W + p/2)            that of those who arrive while we are in front of them
//          + l * (p - min p) * (w + p/2) * r/(1 - r) / k
//                                         avoidable work, which all pay for when the fleet is busy
//     L    = (1 + (n + N/4) / 2) / (1 - fill)
//                                         who else is slowed down, and how near preemption is
//     G    = 1 + (s - 1)/10 + g * (s^4 - 1)
//                                         s is its share of what was sent lately, 1 on average; the
//                                         last term is for s above 1, and g is 0 on an idle fleet
//     cost = T * L * G
//
// where r = l * mean p is the load of the fleet, k the number of targets that hold this prompt best, n
// counts the requests there, others' included, N is the mean of n, and fill is the share of KV memory in
// use.  A holder keeps winning until its queue and its crowd outgrow what the cache saves, target by
// target; no threshold on the whole fleet switches affinity off.  L grows slowly at first because a
// batch of two takes no longer than a batch of one, and has the mean in it because on a full fleet a few
// requests more or less are chance: either would move prompts away from their holders for nothing.
//
// What is not known is left out, not guessed: without arrivals there is no l, without mean p no price,
// and memory counts only when every target reports it.  The price is bounded, by r and by taking for w
// the mean W or the queue that such a load has in the long run, whichever is less: a burst on cold
// caches makes queues that pass, and a price on those would pin every prompt to its first holder.  What
// many targets hold already is asked for so often that one copy more pays for itself: hence k.
//
// Speeds that differ by less than a quarter, and costs by less than a fiftieth, are taken as equal: what
// is learned is no better than that, and the luckiest target would draw all cold prompts.  A weight scales
// queue and crowd, and decides between equals; an idle holder wins whatever it weighs.

#include "base/base.h"
#include "base/prefill_curve.h"
#include "base/rng.h"
#include "policy/policy.h"
#include "policy/sample_internal.h"

// Of engines' defaults: tokens that one step computes at most.
static const float chunk_tokens = 8192;
// To read so many tokens of context while decoding takes as long as to compute a new one.
static const float context_per_token = 1000;

static const float load_max = 0.8F;
static const float fill_max = 0.98F;
static const float speed_noise = 1.25F;
static const double tie = 1.02;
// What it may cost more to stay where a session was last: less than one running request does.
static const double home_worth = 1.25;
static const double recent_floor = 4;
// Requests in flight at each target from which on the fleet counts as busy.
static const float busy_requests = 3;
static const double lean_most = 0.1;
static const double same_prefill = 1.1;

// Estimates that are kept from one pass over the targets to the next; those of further targets are
// made again.
enum { kept_max = 128 };

struct estimate {
    float requests; // n
    float missing;  // u
    float prefill;  // p
    float wait;     // W
    float share;    // of the work, by weight; 1 on average
};

// What is the same for all targets of one decision.
struct scene {
    const struct policy_input *in;
    float prompt;          // tokens
    float block;           // tokens that are computed again at least
    float arrivals;        // per ms and target: l
    float load;            // r
    float token_ms;        // of a usual target
    float step_ms;         // and its step
    float weight;          // mean
    float requests;        // mean: N
    float recent_requests; // mean of what was sent lately, by weight
    float recent_tokens;   // likewise
    float guard;           // 0 on an idle fleet, 1 on a busy one: g
    float decode_ms;       // mean time of a decoding; 0: not known
    bool has_match;        // somebody holds some of it
    bool has_memory;       // all targets say how full they are
};

// Also what is not a number is within bounds.
static float bounded(float value, float low, float high)
{
    return value > low ? (value < high ? value : high) : low;
}

// A target that still has the shipped constant has not shown its speed.
static bool is_learned(float speed, float shipped)
{
    return speed > 0 && speed != shipped;
}

// The harmonic mean of the learned ones, which a single very slow target does not spoil.
struct speed_mean {
    float inverse_sum;
    float count;
};

static void speed_add(struct speed_mean *mean, float speed, float shipped)
{
    if (is_learned(speed, shipped)) {
        mean->inverse_sum += 1 / bounded(speed, 1e-5F, 1e5F);
        mean->count++;
    }
}

static float speed_usual(const struct speed_mean *mean, float shipped)
{
    return mean->count > 0 ? mean->count / mean->inverse_sum : shipped;
}

// Who has not shown its speed is a usual one: taken for slow it would never get to show it.
static float speed_of(float speed, float shipped, float usual)
{
    if (!is_learned(speed, shipped)) {
        return usual;
    }
    speed = bounded(speed, 1e-5F, 1e5F);
    bool is_usual = speed < usual * speed_noise && speed * speed_noise > usual;
    return is_usual ? usual : speed;
}

static float requests_at(const struct policy_target *target)
{
    return bounded((float)target->running_requests, 0, 1e6F) +
           bounded(target->foreign_requests, 0, 1e6F);
}

static void survey(const struct policy_input *in, struct scene *scene)
{
    struct speed_mean token = {0};
    struct speed_mean step = {0};
    double weight_sum = 0;
    double request_sum = 0;
    double recent_requests = 0;
    double recent_tokens = 0;

    *scene = (struct scene){.in = in, .has_memory = true};
    for (uint32_t i = 0; i < in->target_count; i++) {
        const struct policy_target *target = &in->targets[i];
        ASSERT(target->weight > 0);
        speed_add(&token, target->prefill_ms, PREFILL_SHIPPED_TOKEN_MS);
        speed_add(&step, target->step_ms, PREFILL_SHIPPED_STEP_MS);
        weight_sum += target->weight;
        request_sum += (double)requests_at(target);
        recent_requests += (double)bounded(target->recent_requests, 0, 1e9F);
        recent_tokens += (double)bounded(target->recent_tokens, 0, 1e12F);
        scene->has_match |= target->matched_tokens > 0;
        scene->has_memory &= target->cache_tokens > 0 && target->kv_usage >= 0;
    }
    scene->token_ms = speed_usual(&token, PREFILL_SHIPPED_TOKEN_MS);
    scene->step_ms = speed_usual(&step, PREFILL_SHIPPED_STEP_MS);
    scene->weight = (float)(weight_sum / in->target_count);
    scene->requests = (float)(request_sum / in->target_count);
    scene->recent_requests = (float)(recent_requests / weight_sum) * scene->weight;
    scene->recent_tokens = (float)(recent_tokens / weight_sum) * scene->weight;
    float busy = bounded(scene->requests / busy_requests, 0, 1);
    float cube = busy * busy * busy;
    scene->guard = cube * cube; // steep: a fleet with little to do is left alone

    // Nothing at all to compute would cost nothing anywhere: one token stands for it.
    scene->prompt = bounded((float)in->prompt_tokens, 1, 1e7F);
    scene->block = bounded((float)in->block_tokens, 1, scene->prompt);
    scene->decode_ms = bounded(in->traffic->decode_ms, 0, 1e8F);

    uint32_t pool = in->pool_size > in->target_count ? in->pool_size : in->target_count;
    float usual_prefill = bounded(in->traffic->prefill_ms, 0, 1e9F);
    scene->arrivals = bounded(in->traffic->arrivals_per_ms / (float)pool, 0, 1e3F);
    scene->load = bounded(scene->arrivals * usual_prefill, 0, load_max);
    // More than the fleet can do is a burst: the arrivals that matter are those it can serve.
    if (scene->arrivals * usual_prefill > 1) {
        scene->arrivals = 1 / usual_prefill;
    }
}

static float cached_tokens(const struct scene *scene, const struct policy_target *target)
{
    float cached = bounded((float)target->matched_tokens, 0, scene->prompt);
    // The last turn of a conversation went there; how much of this one that is, nobody knows.
    bool is_blind = scene->in->key_count == 0 || !scene->has_match;
    if (is_blind && target->has_session && cached < scene->prompt / 2) {
        cached = scene->prompt / 2;
    }
    return cached < scene->prompt - scene->block ? cached : scene->prompt - scene->block;
}

static struct estimate estimate(const struct scene *scene, const struct policy_target *target)
{
    float token_ms = speed_of(target->prefill_ms, PREFILL_SHIPPED_TOKEN_MS, scene->token_ms);
    float step_ms = speed_of(target->step_ms, PREFILL_SHIPPED_STEP_MS, scene->step_ms);
    float cached = cached_tokens(scene, target);
    float running = bounded((float)target->running_requests, 0, 1e6F);
    float foreign = bounded(target->foreign_requests, 0, 1e6F);
    float queued = bounded((float)target->queued_tokens, 0, 1e9F);
    float context = bounded((float)target->context_tokens, 0, 1e9F);

    struct estimate out = {.requests = requests_at(target), .missing = scene->prompt - cached};
    out.prefill = prefill_curve_ms(token_ms, step_ms, cached, out.missing);
    out.share = (float)target->weight / scene->weight;

    // Prompts attend to themselves, not to each other.
    float in_line = bounded(running - (float)target->decoding, 1, 1e6F);
    out.wait = token_ms * in_line * prefill_curve_work(0, queued / in_line);
    // Each chunk shares its step with those who decode.
    float chunks = 1 + (float)(uint32_t)((queued + out.missing) * (1 / chunk_tokens));
    out.wait += chunks * context * token_ms * (1 / context_per_token);
    out.wait += out.requests > 0 ? step_ms / 2 : 0;
    // Those in the engine's queue that are not ours are like ours.
    float strangers = bounded(target->waiting - in_line, 0, foreign);
    out.wait += strangers * bounded(scene->in->traffic->prefill_ms, 0, 1e9F);
    if (scene->has_memory) {
        float capacity = (float)target->cache_tokens;
        float used = bounded(target->kv_usage, 0, 1) * capacity;
        float lacking = bounded(out.missing + queued + used - capacity, 0, 1e9F);
        float memory_wait = used > 0 ? lacking * scene->decode_ms / used : 0;
        out.wait = memory_wait > out.wait ? memory_wait : out.wait;
    }
    out.wait = bounded(out.wait / out.share, 0, 1e15F);
    return out;
}

// What it costs the fleet when a target computes what another one has.
struct price {
    float least_prefill;
    float wait; // of those who suffer
    float rate; // l * r / (1 - r) / k
};

static struct price price_work(const struct scene *scene, struct estimate kept[kept_max])
{
    struct price price = {0};
    if (!(scene->load > 0)) {
        return price;
    }
    float excess = scene->load / (1 - scene->load);
    float wait_sum = 0;
    float least = INFINITY;
    for (uint32_t i = 0; i < scene->in->target_count; i++) {
        struct estimate now = estimate(scene, &scene->in->targets[i]);
        if (i < kept_max) {
            kept[i] = now;
        }
        wait_sum += now.wait;
        least = now.prefill < least ? now.prefill : least;
        scene->in->costs[i] = (double)now.prefill; // for the count below
    }
    float holders = 0;
    for (uint32_t i = 0; i < scene->in->target_count; i++) {
        holders += scene->in->costs[i] <= (double)least * same_prefill ? 1 : 0;
    }
    float lasting = bounded(scene->in->traffic->prefill_ms, 0, 1e9F) * excess;
    price.least_prefill = least;
    price.wait = bounded(wait_sum / (float)scene->in->target_count, 0, lasting);
    price.rate = scene->arrivals * excess / holders;
    return price;
}

// What was sent there lately, over the mean: requests or tokens to compute, whichever is more.  Requests
// in flight are a glance; this is a look.
static double share_of(const struct scene *scene, const struct policy_target *target, float weight)
{
    double usual = (double)scene->recent_requests;
    double requests = (double)bounded(target->recent_requests, 0, 1e9F) / (double)weight;
    double tokens = (double)bounded(target->recent_tokens, 0, 1e12F) / (double)weight;
    // In units of a usual request, so that a few of them on an idle fleet are no share yet.
    tokens = scene->recent_tokens > 0 ? tokens * usual / (double)scene->recent_tokens : usual;
    double most = requests > tokens ? requests : tokens;
    return (most + recent_floor) / (usual + recent_floor);
}

// Who got more than its share lately is leaned away from: by little, which decides between targets that
// are the same to a cold prompt, since whoever gets it gets its followers; and by much once the
// fleet is busy and the share is large, so that a prompt which most requests begin with does not
// stay on the few targets that had it first.
static double lean(const struct scene *scene, double share)
{
    double most = share < 2 ? share - 1 : 1;
    double little = 1 + lean_most * most;
    return share > 1 ? little + (double)scene->guard * (share * share * share * share - 1) : little;
}

static double cost_ms(const struct scene *scene, const struct price *price,
                      const struct policy_target *target, const struct estimate *now)
{
    double half = (double)now->prefill / 2;
    double time = (double)now->wait + (double)now->prefill;
    time += (double)scene->arrivals * (double)now->prefill * ((double)now->wait + half);
    time += (double)price->rate * (double)(now->prefill - price->least_prefill) *
            ((double)price->wait + half);

    double requests = (double)now->requests / (double)now->share;
    double crowd = 1 + (requests + (double)scene->requests / 4) / 2;
    if (scene->has_memory) {
        float demand = ((float)target->queued_tokens + now->missing) / (float)target->cache_tokens;
        crowd /= 1 - (double)bounded(bounded(target->kv_usage, 0, 1) + demand, 0, fill_max);
    }
    return time * crowd * lean(scene, share_of(scene, target, now->share));
}

static uint32_t choose(const struct policy_input *in, double least, struct rng *rng)
{
    uint32_t best = 0;
    uint64_t tie_weight = 0;
    bool has_session = false;

    for (uint32_t i = 0; i < in->target_count; i++) {
        bool is_home = in->targets[i].has_session;
        if (in->costs[i] > least * (is_home ? home_worth : tie) || (has_session && !is_home)) {
            continue;
        }
        if (is_home && !has_session) {
            has_session = true;
            tie_weight = 0;
        }
        // Reservoir sampling: each of the equals wins by its share of their weight.
        tie_weight += in->targets[i].weight;
        if (sample_below(rng, tie_weight) < in->targets[i].weight) {
            best = i;
        }
    }
    return best;
}

static uint32_t warm_pick(void *state, const struct policy_input *in, struct rng *rng)
{
    (void)state;

    struct scene scene;
    survey(in, &scene);
    struct estimate kept[kept_max];
    struct price price = price_work(&scene, kept);
    // Work on an idle fleet has no price, and nothing was estimated for it.
    uint32_t kept_count = scene.load > 0 ? kept_max : 0;

    double least = INFINITY;
    for (uint32_t i = 0; i < in->target_count; i++) {
        struct estimate now = i < kept_count ? kept[i] : estimate(&scene, &in->targets[i]);
        in->costs[i] = cost_ms(&scene, &price, &in->targets[i], &now);
        least = in->costs[i] < least ? in->costs[i] : least;
    }
    return choose(in, least, rng);
}

const struct policy policy_warm = {
    .name = "warm",
    .summary = "least predicted time for this request and those it delays, cache included",
    .reads_prompt = true,
    .may_sample = true,
    .pick = warm_pick,
};
