/* A model, its tokenizer and an adapter, opened and closed together: see loaded.h. */
#include "train/loaded.h"

#include "train/adapter.h"

int zl_loaded_open(struct zl_loaded *l, const char *path, const char *adapter, uint64_t positions, struct zl_error *err)
{
    *l = (struct zl_loaded){0};
    int rc = zl_model_open(path, positions, &l->model, err);
    if (rc)
        return rc;
    if (adapter)
        rc = zl_adapter_load(adapter, &l->model, &l->adapter, err);
    l->has_adapter = !rc && adapter;
    if (!rc)
        rc = zl_model_tokenizer(&l->model, &l->tokenizer, err);
    if (rc)
        zl_loaded_close(l);
    return rc;
}

int zl_loaded_try(const char *path, const char *adapter, struct zl_error *err)
{
    struct zl_model m;
    int rc = zl_model_open(path, 1, &m, err);
    if (rc)
        return rc;
    rc = adapter ? zl_adapter_try(adapter, &m, err) : 0;
    zl_model_close(&m);
    return rc;
}

void zl_loaded_close(struct zl_loaded *l)
{
    if (l->has_adapter)
        zl_adapter_free(&l->adapter);
    zl_tokenizer_close(l->tokenizer);
    zl_model_close(&l->model);
    *l = (struct zl_loaded){0};
}
