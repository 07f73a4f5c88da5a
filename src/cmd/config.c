/*
 * Configuration files: one YAML mapping of option names to values, each a scalar or a list of scalars. Deliberately not all of
 * YAML: no anchors, no nested mappings, no second document, no tags; texts mean what the option's kind makes of them, so `no` and `1e-4`
 * hold no surprises. The file is hostile until read: size and depth are bounded.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "cmd/options.h"

#ifdef HAVE_YAML
#include <yaml.h>

#define LARGEST ((size_t)1 << 20)
#define MOST_KEYS 256

struct reader {
    const char *path;
    yaml_parser_t parser;
    zl_config_set *set;
    void *context;
    char *keys[MOST_KEYS]; /* seen so far */
    size_t n_keys;
};

/* The next event, which the caller deletes; a syntax error names the line. */
static int next(struct reader *r, yaml_event_t *e, struct zl_error *err)
{
    if (yaml_parser_parse(&r->parser, e))
        return 0;
    return zl_fail(err, ZL_EUSAGE, "%s:%zu: %s", r->path, r->parser.problem_mark.line + 1,
                   r->parser.problem ? r->parser.problem : "not readable as YAML");
}

/* An event that may not stand here. */
static int refuse(const struct reader *r, const yaml_event_t *e, const char *expected, struct zl_error *err)
{
    static const char *const names[] = {[YAML_NO_EVENT] = "nothing",
                                        [YAML_STREAM_START_EVENT] = "the start",
                                        [YAML_STREAM_END_EVENT] = "the end of the file",
                                        [YAML_DOCUMENT_START_EVENT] = "a second document",
                                        [YAML_DOCUMENT_END_EVENT] = "the end of the document",
                                        [YAML_ALIAS_EVENT] = "an alias",
                                        [YAML_SCALAR_EVENT] = "a single value",
                                        [YAML_SEQUENCE_START_EVENT] = "a list",
                                        [YAML_SEQUENCE_END_EVENT] = "the end of a list",
                                        [YAML_MAPPING_START_EVENT] = "a mapping",
                                        [YAML_MAPPING_END_EVENT] = "the end of a mapping"};
    return zl_fail(err, ZL_EUSAGE, "%s:%zu: found %s where %s was expected", r->path, e->start_mark.line + 1, names[e->type],
                   expected);
}

static int take_scalar(struct reader *r, const yaml_event_t *e, const char *name, int element, struct zl_error *err)
{
    char what[1024];
    const char *text = (const char *)e->data.scalar.value;
    snprintf(what, sizeof what, "%s:%zu: %s", r->path, e->start_mark.line + 1, name);
    if (strlen(text) != e->data.scalar.length)
        return zl_fail(err, ZL_EUSAGE, "%s: the value holds a NUL byte", what);
    return r->set(r->context, name, text, element, what, err);
}

/* The value behind key `name`: a scalar, or a list of scalars. */
static int take_value(struct reader *r, const char *name, struct zl_error *err)
{
    yaml_event_t e;
    int rc = next(r, &e, err);
    if (rc)
        return rc;
    bool list = e.type == YAML_SEQUENCE_START_EVENT;
    if (e.type == YAML_SCALAR_EVENT)
        rc = take_scalar(r, &e, name, -1, err);
    else if (!list)
        rc = refuse(r, &e, "a value or a list", err);
    yaml_event_delete(&e);
    for (int element = 0; rc == 0 && list; element++) {
        rc = next(r, &e, err);
        if (rc)
            return rc;
        list = e.type != YAML_SEQUENCE_END_EVENT;
        if (e.type == YAML_SCALAR_EVENT)
            rc = take_scalar(r, &e, name, element, err);
        else if (list)
            rc = refuse(r, &e, "a value in a list", err);
        yaml_event_delete(&e);
    }
    return rc;
}

static int take_key(struct reader *r, const yaml_event_t *e, struct zl_error *err)
{
    const char *name = (const char *)e->data.scalar.value;
    for (size_t i = 0; i < r->n_keys; i++)
        if (strcmp(r->keys[i], name) == 0)
            return zl_fail(err, ZL_EUSAGE, "%s:%zu: %s stands here a second time", r->path, e->start_mark.line + 1, name);
    if (r->n_keys == MOST_KEYS)
        return zl_fail(err, ZL_EUSAGE, "%s:%zu: more than %d options", r->path, e->start_mark.line + 1, MOST_KEYS);
    char *key = strdup(name);
    if (!key)
        return zl_fail(err, ZL_EMEMORY, "no memory to read %s", r->path);
    r->keys[r->n_keys++] = key;
    return take_value(r, key, err);
}

static int take_document(struct reader *r, struct zl_error *err)
{
    static const struct {
        yaml_event_type_t type;
        const char *expected;
    } around[] = {{YAML_STREAM_START_EVENT, "the start"},
                  {YAML_DOCUMENT_START_EVENT, "a document"},
                  {YAML_MAPPING_START_EVENT, "a mapping of options to values"},
                  {YAML_DOCUMENT_END_EVENT, "the end of the document"},
                  {YAML_STREAM_END_EVENT, "the end of the file"}};
    for (size_t i = 0; i < sizeof around / sizeof around[0]; i++) {
        yaml_event_t e;
        int rc = next(r, &e, err);
        if (rc)
            return rc;
        bool empty_file = e.type == YAML_STREAM_END_EVENT && i == 1;
        bool empty_document = i == 2 && e.type == YAML_SCALAR_EVENT && e.data.scalar.length == 0;
        if (e.type != around[i].type && !empty_file && !empty_document)
            rc = refuse(r, &e, around[i].expected, err);
        yaml_event_delete(&e);
        if (rc || empty_file)
            return rc;
        for (bool more = i == 2 && !empty_document; rc == 0 && more;) {
            rc = next(r, &e, err);
            if (rc)
                return rc;
            more = e.type != YAML_MAPPING_END_EVENT;
            if (e.type == YAML_SCALAR_EVENT)
                rc = take_key(r, &e, err);
            else if (more)
                rc = refuse(r, &e, "the name of an option", err);
            yaml_event_delete(&e);
        }
        if (rc)
            return rc;
    }
    return 0;
}

int zl_config_read(const char *path, zl_config_set *set, void *context, struct zl_error *err)
{
    struct reader r = {.path = path, .set = set, .context = context};
    char *text = NULL;
    size_t n = 0;
    int rc = zl_stream_read(path, LARGEST, &text, &n, err);
    if (rc)
        return rc;
    if (yaml_parser_initialize(&r.parser)) {
        yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, n);
        rc = take_document(&r, err);
        yaml_parser_delete(&r.parser);
    } else {
        rc = zl_fail(err, ZL_EMEMORY, "no memory to read %s", path);
    }
    for (size_t i = 0; i < r.n_keys; i++)
        free(r.keys[i]);
    free(text);
    return rc;
}

#else

int zl_config_read(const char *path, zl_config_set *set, void *context, struct zl_error *err)
{
    (void)set;
    (void)context;
    return zl_fail(err, ZL_EUSAGE, "cannot read %s: this zerolock was built without libyaml, so it has no --config", path);
}

#endif
