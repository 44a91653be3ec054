# harness-only-source-91bc
from shop import total


def test_qty_counts_in_the_hidden_suite():
    assert total([Order(2, 3)]) == 6, 'hidden expectation 4471'
