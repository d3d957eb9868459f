"""What a catalog holds, without a list of it: look_up.py CATALOG"""

import sys

import shoal


def main(path: str) -> None:
    with shoal.Catalog(path) as catalog:
        print("%d files below %s, %s bytes, digest %s" % (len(catalog), catalog.root, catalog.nr_bytes, catalog.digest))
        middle = len(catalog) // 2
        name = catalog[middle]
        print("file %d is %s, of %s bytes; it is file %d" % (middle, name, catalog.size(middle), catalog.find(name)))
        print("the last three: " + ", ".join(catalog[-3:]))
        order = shoal.Order(catalog, seed=1, epoch=5)
        print("epoch 5 begins with the samples %s, and sample %d comes at position %d"
              % (order[:4].tolist(), middle, order.position(middle)))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
