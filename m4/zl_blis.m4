dnl ZL_CHECK_BLIS: find BLIS with its microkernel interface. Debian's libblis-*-dev have no pkg-config file and put
dnl blis.h and the library in folders named after the threading variant; BLIS >= 1.0 renamed the context queries.
dnl We call single microkernels from threads of our own, so the serial, pthread and openmp variants all serve.
AC_DEFUN([ZL_CHECK_BLIS], [
AC_ARG_WITH([blis], [AS_HELP_STRING([--with-blis=PREFIX], [where BLIS is installed])], [], [with_blis=])
BLIS_CFLAGS= BLIS_LIBS= blis_found=
zl_save_CPPFLAGS=$CPPFLAGS zl_save_LIBS=$LIBS
multiarch=$($CC -print-multiarch 2>/dev/null)
sysroot=$($CC -print-sysroot 2>/dev/null) # of a cross compiler; clang does not say
for zl_try in "$with_blis" pkg-config plain serial openmp pthread; do
  AS_IF([test -n "$blis_found"], [break])
  case $zl_try in
    "") continue ;;
    pkg-config) PKG_CHECK_EXISTS([blis], [], [continue])
      zl_cf=$($PKG_CONFIG --cflags blis) zl_l=$($PKG_CONFIG --libs blis) ;;
    plain) zl_cf= zl_l=-lblis ;;
    serial|openmp|pthread)
      zl_cf="-isystem $sysroot/usr/include/$multiarch/blis-$zl_try"
      zl_l="-L$sysroot/usr/lib/$multiarch/blis-$zl_try -lblis" ;;
    *) zl_cf="-isystem $with_blis/include -isystem $with_blis/include/blis" zl_l="-L$with_blis/lib -lblis" ;;
  esac
  for zl_api in bli_cntx_get_ukr_dt bli_cntx_get_l3_vir_ukr_dt; do
    CPPFLAGS="$zl_save_CPPFLAGS $zl_cf" LIBS="$zl_l $zl_save_LIBS"
    AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <blis.h>]],
      [[bli_init(); void_fp f = $zl_api(BLIS_FLOAT, BLIS_GEMM_UKR, bli_gks_query_cntx()); return f == 0;]])],
      [BLIS_CFLAGS=$zl_cf BLIS_LIBS=$zl_l blis_found="$zl_try, $zl_api"
       AS_IF([test $zl_api = bli_cntx_get_ukr_dt],
         [AC_DEFINE([ZL_BLIS_UKR_DT], [1], [BLIS has bli_cntx_get_ukr_dt (1.0 and later)])])
       break])
  done
done
CPPFLAGS=$zl_save_CPPFLAGS LIBS=$zl_save_LIBS
AC_MSG_CHECKING([for BLIS])
AC_MSG_RESULT([${blis_found:-no}])
AS_IF([test -z "$blis_found"], [AC_MSG_ERROR([BLIS was not found; on Debian: apt-get install libblis-openmp-dev; elsewhere: --with-blis=PREFIX])])
AC_SUBST([BLIS_CFLAGS])
AC_SUBST([BLIS_LIBS])
])
