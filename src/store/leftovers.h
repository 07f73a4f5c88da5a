/* What a writer that was killed leaves in a run's folder: files and adapter folders under their temporary names. */
#ifndef ZL_STORE_LEFTOVERS_H
#define ZL_STORE_LEFTOVERS_H

/* Remove them from the folder `dir`, whose lock the caller holds, so that no writer is alive. Nothing but what has a name that our own writers
 * make goes: no link, no other kind of file, no folder with anything else in it. What cannot be removed stays; it does no harm. */
void zl_leftovers_remove(const char *dir);

#endif
