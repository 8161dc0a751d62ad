// SPDX-License-Identifier: Apache-2.0

#include "cli/top/top_keys.h"

#include "base/base.h"
#include "cli/top/top_fleet.h"

enum { AT_REST, AFTER_ESCAPE, IN_SEQUENCE, IN_SHORT_SEQUENCE };

enum { escape = 0x1b, control_l = 0x0c, number_max = 1000 };

static enum top_key key_of_final(uint8_t final, uint32_t number)
{
    static const struct {
        uint8_t final;
        uint32_t number; // of ~ sequences
        enum top_key key;
    } keys[] = {
        {'A', 0, TOP_KEY_UP},        {'B', 0, TOP_KEY_DOWN}, {'H', 0, TOP_KEY_HOME},
        {'F', 0, TOP_KEY_END},       {'~', 1, TOP_KEY_HOME}, {'~', 4, TOP_KEY_END},
        {'~', 5, TOP_KEY_PAGE_UP},   {'~', 7, TOP_KEY_HOME}, {'~', 8, TOP_KEY_END},
        {'~', 6, TOP_KEY_PAGE_DOWN},
    };
    for (size_t i = 0; i < ARRAY_COUNT(keys); i++) {
        if (keys[i].final == final && (final != '~' || keys[i].number == number)) {
            return keys[i].key;
        }
    }
    return TOP_KEY_NONE;
}

static enum top_key take_in_sequence(struct top_keys *keys, uint8_t byte)
{
    if (byte >= '0' && byte <= '9') {
        uint32_t number = keys->number * 10 + (uint32_t)(byte - '0');
        keys->number = number < number_max ? number : number_max;
        return TOP_KEY_NONE;
    }
    if (byte < 0x40 || byte > 0x7e) { // more parameters, or nonsense: on to the final byte
        return TOP_KEY_NONE;
    }
    keys->state = AT_REST;
    return key_of_final(byte, keys->number);
}

enum top_key top_keys_take(struct top_keys *keys, uint8_t byte)
{
    if (byte == escape) {
        keys->state = AFTER_ESCAPE;
        keys->number = 0;
        return TOP_KEY_NONE;
    }
    switch (keys->state) {
    case AFTER_ESCAPE:
        if (byte == '[' || byte == 'O') {
            keys->state = byte == '[' ? IN_SEQUENCE : IN_SHORT_SEQUENCE;
            return TOP_KEY_NONE;
        }
        break; // the escape stood alone
    case IN_SEQUENCE:
        return take_in_sequence(keys, byte);
    case IN_SHORT_SEQUENCE:
        keys->state = AT_REST;
        return key_of_final(byte, 0);
    default:
        break;
    }
    keys->state = AT_REST;
    keys->letter = (char)byte;
    return TOP_KEY_LETTER;
}

// May go beyond the end: top_screen_draw clamps it.
static void scroll(struct top_view *view, enum top_key key)
{
    enum top_panel panel = view->focus == TOP_DECISIONS ? TOP_DECISIONS : TOP_FLEET;
    uint32_t *at = &view->scroll[panel];
    uint32_t page = view->page[panel] > 0 ? view->page[panel] : 1;

    switch (key) {
    case TOP_KEY_UP:
        *at -= *at > 0;
        break;
    case TOP_KEY_DOWN:
        *at += 1;
        break;
    case TOP_KEY_PAGE_UP:
        *at -= *at < page ? *at : page;
        break;
    case TOP_KEY_PAGE_DOWN:
        *at += page;
        break;
    case TOP_KEY_HOME:
        *at = 0;
        break;
    case TOP_KEY_END:
        *at = top_backend_max;
        break;
    default:
        break;
    }
}

static void sort_by(struct top_view *view, uint32_t steps)
{
    view->order = (view->order + steps) % top_fleet_order_count();
    view->scroll[TOP_FLEET] = 0;
}

static enum top_effect press_letter(struct top_view *view, char letter)
{
    switch (letter) {
    case 'q':
        return TOP_QUIT;
    case control_l:
        return TOP_REPAINT;
    case 'k':
        scroll(view, TOP_KEY_UP);
        break;
    case 'j':
        scroll(view, TOP_KEY_DOWN);
        break;
    case 's':
        sort_by(view, 1);
        break;
    case 'S':
        sort_by(view, top_fleet_order_count() - 1);
        break;
    case 'p':
        view->is_paused = !view->is_paused;
        break;
    case 'd':
        view->focus = view->focus == TOP_DECISIONS ? TOP_FLEET : TOP_DECISIONS;
        break;
    case '?':
    case 'h':
        view->shows_help = !view->shows_help;
        break;
    case '1':
    case '2':
    case '3':
    case '4':
    case '5':
        view->hides[letter - '1'] = !view->hides[letter - '1'];
        break;
    default:
        break;
    }
    return TOP_STAY;
}

enum top_effect top_keys_press(struct top_view *view, enum top_key key, char letter)
{
    if (key == TOP_KEY_LETTER) {
        return press_letter(view, letter);
    }
    scroll(view, key);
    return TOP_STAY;
}
