noinst_LIBRARIES += daemon/app/feed/libfeed.a
daemon_app_feed_libfeed_a_SOURCES = \
  daemon/app/feed/event_log.c daemon/app/feed/event_log.h \
  daemon/app/feed/metrics_collect.c daemon/app/feed/metrics_collect.h \
  daemon/app/feed/subscriptions.c daemon/app/feed/subscriptions.h \
  daemon/app/feed/trace_collect.c daemon/app/feed/trace_collect.h
