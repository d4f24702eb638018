noinst_LIBRARIES += daemon/app/http/libhttp.a
daemon_app_http_libhttp_a_SOURCES = \
  daemon/app/http/httpd.c daemon/app/http/httpd.h \
  daemon/app/http/prometheus.c daemon/app/http/prometheus.h
