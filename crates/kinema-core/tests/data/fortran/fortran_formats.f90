! Writes values with gfortran's formatted output, one field a line: the golden values of Kinema's text of numbers.
!
! Standard input: the bits of each value, 8 bytes, least significant first. Value n (from 0) is written with the format
! mod(n / 8, 12) of the table below. Integers and names are made of the bits as tests/common/fortran_values.rs says.
program fortran_formats
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  integer, parameter :: formats = 12
  character(len=8), parameter :: descriptors(formats) = [character(len=8) :: 'g20.10', 'f20.10', 'g20.10', 'f12.6', &
    '1pe12.4', 'g20.10', '1pe16.7', 'f10.3', 'g20.10', 'f7.1', 'i10', 'a8']
  integer(int64) :: bits, number
  integer :: place, status

  open(unit=10, file='/dev/stdin', access='stream', form='unformatted', action='read')
  number = 0
  do
    read(10, iostat=status) bits
    if (status /= 0) exit
    place = int(mod(number / 8_int64, int(formats, int64))) + 1
    select case (descriptors(place))
    case ('i10')
      write(*, '(i10)') integer_of(bits)
    case ('a8')
      write(*, '(a8)') name_of(bits)
    case default
      write(*, '(' // trim(descriptors(place)) // ')') transfer(bits, 1.0_real64)
    end select
    number = number + 1
  end do

contains

  ! remainder of the bits as a number without a sign
  pure integer function remainder_of(bits, divisor)
    integer(int64), intent(in) :: bits
    integer, intent(in) :: divisor
    integer(int64) :: high, low
    high = shiftr(bits, 32)
    low = iand(bits, int(z'ffffffff', int64))
    remainder_of = int(mod(mod(high, int(divisor, int64)) * mod(4294967296_int64, int(divisor, int64)) + low, &
      int(divisor, int64)))
  end function

  pure integer(int64) function integer_of(bits)
    integer(int64), intent(in) :: bits
    integer_of = shifta(bits, remainder_of(bits, 61))
  end function

  pure character(len=10) function name_of(bits)
    integer(int64), intent(in) :: bits
    integer :: i
    name_of = ''
    do i = 1, remainder_of(bits, 11)
      name_of(i:i) = achar(iachar('A') + int(iand(shiftr(bits, 6 * (i - 1)), 15_int64)))
    end do
  end function
end program
