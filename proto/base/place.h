/* Finds the place of a value in a sorted list, for lists that grow and shrink.
 *
 * Example: 3, 7, 7, 9. The place of 7 is 1, that of 8 is 3, that of 10 is 4.
 *
 * Purity: pure.
 */
#ifndef HSP_PLACE_H
#define HSP_PLACE_H
#include <stddef.h>

/* The index of the first of @n items of @size bytes that is not before @key; @n: all are.
 *
 * @list   ascending by @order; may be NULL where @n is 0.
 * @order  below 0: the item is behind the key; 0: equal; above 0: the item is before it. As for
 *         bsearch(), the key comes first. */
size_t hsp_place(const void *key, const void *list, size_t n, size_t size,
                 int (*order)(const void *key, const void *item));

#endif
