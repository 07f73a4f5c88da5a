RECIPE_TESTS = tests/unit/test-belief tests/unit/test-train-layers
check_PROGRAMS += $(RECIPE_TESTS)
TESTS += $(RECIPE_TESTS)

tests_unit_test_belief_SOURCES = tests/unit/test-belief.c tests/unit/tiny-run.h $(MODEL_COMMON)
tests_unit_test_belief_CFLAGS = $(MODEL_CFLAGS)
tests_unit_test_belief_CPPFLAGS = $(MODEL_CPPFLAGS)
tests_unit_test_belief_LDADD = $(MODEL_LDADD)
tests_unit_test_train_layers_SOURCES = tests/unit/test-train-layers.c tests/unit/tiny-run.h $(MODEL_COMMON)
tests_unit_test_train_layers_CFLAGS = $(MODEL_CFLAGS)
tests_unit_test_train_layers_CPPFLAGS = $(MODEL_CPPFLAGS)
tests_unit_test_train_layers_LDADD = $(MODEL_LDADD)
