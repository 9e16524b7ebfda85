"""The two structures as their papers describe them, unit by unit; slow and independent."""


class CascadingHistogram:
    """Datar et al. 2002: buckets per level, and a cascade of merges of the two oldest."""

    def __init__(self, k):
        self.k = k
        self.total = 0
        self.levels = []  # levels[l]: last ranks of buckets of size 2**l, oldest first

    def add_unit(self):
        self.total += 1
        carry, level = self.total, 0
        while carry is not None:
            if level == len(self.levels):
                self.levels.append([])
            buckets = self.levels[level]
            buckets.append(carry)
            most = self.k + 1 if level == 0 else -(-self.k // 2) + 1
            carry = None
            if len(buckets) > most:
                del buckets[0]
                carry = buckets.pop(0)  # the merged bucket ends where its newer half ended
            level += 1

    def remembered(self):
        return sorted(rank for buckets in self.levels for rank in buckets)


class QueuedWave:
    """Gibbons & Tirthapura 2004, Fig. 4: a queue of fixed length per level."""

    def __init__(self, length):
        self.length = length
        self.total = 0
        self.queues = {}

    def add_unit(self):
        self.total += 1
        level = (self.total & -self.total).bit_length() - 1
        queue = self.queues.setdefault(level, [])
        queue.append(self.total)
        if len(queue) > self.length:
            del queue[0]

    def remembered(self):
        return sorted(rank for queue in self.queues.values() for rank in queue)
